/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is kept for clients that attach late: its sharer has freed it, has ended, or was killed.
 * After each test nothing is charged, and nothing is reserved. */
#include <stdio.h>

#include "tests/live/support/sharer.h"
#include "tests/live/support/world.h"

#define N_BYTES     5000001
#define BLOCK_BYTES (6 * MIB)

/* Longer than a test may take; and not. */
#define LONG_MS  60000
#define SHORT_MS 300

#define STRANGER "12345"

static struct sharer owner, guest;
static char token[GPUMEM_TOKEN_TEXT_BYTES];

static const char *const kinds[] = {"device", "pinned"};

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--pinned-bytes", "64MiB"));
        daemon_admit_all(&gpumemd);
        sharer_start(&owner, SHARER_WITH_CUDA, NULL);
        sharer_start(&guest, SHARER_WITH_CUDA, NULL);
}

static void stop(void)
{
        sharer_end(&guest);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        daemon_stop(&gpumemd);
}

/* The owner has memory with bytes of seed 1 in it, and a token for it. */
static void keep(const char *kind, unsigned keep_ms)
{
        sharer_must(&owner, "alloc %s %d", kind, N_BYTES);
        sharer_must(&owner, "fill 1");
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "keep %u", keep_ms));
}

/* It is the daemon's, charged to the tenant. */
static void expect_kept(void)
{
        daemon_await(FIGURE_clients, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), BLOCK_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), BLOCK_BYTES);
}

/* The guest has it, and no other client afterwards. */
static void expect_guest_has_it(const char *kind)
{
        ck_assert_str_eq(sharer_must(&guest, "attach %s %s", kind, token), "5000001");
        ck_assert_str_eq(sharer_must(&guest, "check 1"), "0");
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), BLOCK_BYTES);
        sharer_must(&guest, "detach");
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(sharer_tell(&guest, "attach %s %s", kind, token), GPUMEM_E_NO_TOKEN);
}

TEST(the_sharer_ends_before_the_newcomer_attaches, .to = ARRAY_SIZE(kinds))
{
        keep(kinds[_i], LONG_MS);
        sharer_end(&owner);
        expect_kept();
        expect_guest_has_it(kinds[_i]);
}

TEST(the_sharer_is_killed_before_the_newcomer_attaches, .to = ARRAY_SIZE(kinds))
{
        keep(kinds[_i], LONG_MS);
        sharer_kill(&owner);
        expect_kept();
        expect_guest_has_it(kinds[_i]);
}

TEST(the_sharer_frees_it_and_goes_on, .to = ARRAY_SIZE(kinds))
{
        keep(kinds[_i], LONG_MS);
        sharer_must(&owner, "free");
        expect_kept();
        expect_guest_has_it(kinds[_i]);
        sharer_end(&owner);
}

TEST(the_time_runs_out, .to = ARRAY_SIZE(kinds))
{
        keep(kinds[_i], SHORT_MS);
        sharer_end(&owner);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(sharer_tell(&guest, "attach %s %s", kinds[_i], token), GPUMEM_E_NO_TOKEN);
}

TEST(without_it_all_is_as_before)
{
        sharer_must(&owner, "alloc device %d", N_BYTES);
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "keep 0"));
        sharer_end(&owner);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(sharer_tell(&guest, "attach device %s", token), GPUMEM_E_NO_TOKEN);
}

TEST(who_withdraws_the_token_ends_it)
{
        keep("device", LONG_MS);
        sharer_end(&owner);
        expect_kept();
        sharer_must(&guest, "unshare %s", token);
        daemon_await(FIGURE_reserved, 0);
}

TEST(another_tenant_cannot_have_it, NEEDS_ROOT)
{
        struct sharer stranger;

        keep("pinned", LONG_MS);
        sharer_end(&owner);
        expect_kept();
        sharer_start(&stranger, SHARER_WITHOUT_CUDA, STRANGER);
        ck_assert_int_eq(sharer_tell(&stranger, "attach pinned %s", token), GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(sharer_tell(&stranger, "unshare %s", token), GPUMEM_E_NO_TOKEN);
        sharer_end(&stranger);
        expect_guest_has_it("pinned");
}

/* It has an owner, though lists and refusals have no process to name for it. */
TEST(it_is_listed_and_counted, NEEDS_EMULATOR)
{
        struct link *link = open_link("test", NULL);
        struct message_lease wanted = {.n_bytes = 254 * MIB};
        struct message_leased leased;
        struct frame request = FRAME_NULL, reply;

        keep("device", LONG_MS);
        sharer_end(&owner);
        expect_kept();
        ck_assert_int_eq(ask_over(link, &request, MESSAGE_BLOCKS, &reply), 0);
        ck_assert_uint_eq(reply.blocks_reply.n_rows, 1);
        ck_assert_int_eq(ask_over(link, &request, MESSAGE_CLIENTS, NULL), 0);
        ck_assert_int_eq(ask_over(link, &request, MESSAGE_TENANTS, NULL), 0);
        ck_assert_int_eq(lease_over(link, &wanted, &leased), GPUMEM_E_REFUSED);
        (void)link_free(link);
        expect_guest_has_it("device");
}

TEST(no_longer_than_a_minute)
{
        struct gpumem_share_options options = {.struct_size = sizeof(options), .keep_ms = 60001};
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .n_bytes = N_BYTES,
                                         .flags = GPUMEM_SHAREABLE};
        struct frame frame = {.share_kept = {.lease = 1, .n_bytes = 1, .keep_ms = 60001}};
        struct link *link = open_link("test", NULL);
        struct gpumem_client *client;
        struct gpumem_token kept;
        char text[LINK_REFUSAL_MAX];
        void *pointer;

        sharer_end(&owner);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpumem_share(client, pointer, &options, &kept), GPUMEM_E_BAD_REQUEST);
        must_contain(refusal_of(client).text, "keep_ms is 60001; allowed are 0 to 60000");
        options.keep_ms = 60000;
        ck_assert_int_eq(gpumem_share(client, pointer, &options, &kept), 0);
        ck_assert_int_eq(gpumem_unshare(client, &kept), 0);
        gpumem_disconnect(client);
        /* Past the library. */
        ck_assert_int_eq(ask_over(link, &frame, MESSAGE_SHARE_KEPT, NULL), GPUMEM_E_BAD_REQUEST);
        link_refusal(link, text);
        must_contain(text, "invalid keep_ms 60001 (expected 0-60000)");
        (void)link_free(link);
}

TESTS_MAIN("share_keep", .limit_s = 60, .start = start, .stop = stop)
