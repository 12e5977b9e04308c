/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes share: bytes seen on both sides, holders that leave in any order and in any
 * way, and which clients may attach. After each test nothing is charged, nothing is reserved though no
 * client asked to free it, and the daemon has as many fds open as before. */
#include "tests/live/support/sharer.h"
#include "tests/live/support/world.h"

/* No whole number of pages, of blocks, or of what is copied at a time. */
#define N_BYTES     5000001
#define BLOCK_BYTES (6 * MIB)

#define STRANGER "12345"

static struct sharer owner, guest, third;
static char token[GPUMEM_TOKEN_TEXT_BYTES];

static const char *const kinds[] = {"device", "pinned"};
static const char *kind; /* of what is shared */

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--pinned-bytes", "64MiB"));
        daemon_note_fds(&gpumemd);
        sharer_start(&owner, SHARER_WITH_CUDA, NULL);
        sharer_start(&guest, SHARER_WITH_CUDA, NULL);
}

static void expect_nothing(void)
{
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_blocks), 0);
}

static void stop(void)
{
        sharer_end(&owner);
        sharer_end(&guest);
        sharer_end(&third);
        expect_nothing();
        gpumemd_stop_empty();
}

static void expect_bytes(struct sharer *sharer, unsigned seed)
{
        ck_assert_str_eq(sharer_must(sharer, "check %u", seed), "0");
}

/* A token for what it has. */
static void take_token(struct sharer *sharer, const char *order)
{
        (void)snprintf(token, sizeof(token), "%s", sharer_must(sharer, "%s", order));
        ck_assert_uint_eq(strlen(token), 32);
}

/* The owner has memory with its bytes of seed 1 in it, and a token for it. */
static void share(const char *kind_)
{
        kind = kind_;
        sharer_must(&owner, "alloc %s %d", kind, N_BYTES);
        sharer_must(&owner, "fill 1");
        take_token(&owner, "share");
}

static void attach(struct sharer *sharer)
{
        ck_assert_str_eq(sharer_must(sharer, "attach %s %s", kind, token), "5000001");
}

static void expect_no_token(struct sharer *sharer, const char *order)
{
        ck_assert_int_eq(sharer_tell(sharer, "%s %s", order, token), GPUMEM_E_NO_TOKEN);
}

static void expect_held(uint64_t n_leases)
{
        daemon_await(FIGURE_leases, n_leases);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), BLOCK_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), BLOCK_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), BLOCK_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
}

TEST(each_sees_what_the_other_writes, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        expect_held(2);
        expect_bytes(&guest, 1);
        sharer_must(&owner, "fill 2");
        expect_bytes(&guest, 2);
        sharer_must(&guest, "fill 3");
        expect_bytes(&owner, 3);
        sharer_must(&guest, "detach");
        expect_held(1);
        expect_bytes(&owner, 3);
        sharer_must(&owner, "free");
        expect_nothing();
}

TEST(the_owner_frees_first, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        sharer_must(&owner, "free");
        expect_held(1);
        expect_bytes(&guest, 1);
        /* The token outlives the client that made it, while another client holds the memory. */
        attach(&owner);
        expect_held(2);
        sharer_must(&guest, "fill 2");
        expect_bytes(&owner, 2);
        sharer_must(&guest, "detach");
        expect_held(1);
        expect_bytes(&owner, 2);
        sharer_must(&owner, "detach");
        expect_nothing();
        ck_assert_int_eq(sharer_tell(&guest, "attach %s %s", kind, token), GPUMEM_E_NO_TOKEN);
}

TEST(the_owner_is_killed_first, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        sharer_kill(&owner);
        expect_held(1);
        expect_bytes(&guest, 1);
        sharer_start(&third, SHARER_WITH_CUDA, NULL);
        attach(&third);
        sharer_must(&guest, "fill 2");
        expect_bytes(&third, 2);
        sharer_end(&third);
        expect_held(1);
        sharer_kill(&guest);
}

TEST(a_guest_is_killed, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        sharer_must(&guest, "fill 4");
        sharer_kill(&guest);
        expect_held(1);
        expect_bytes(&owner, 4);
        sharer_start(&guest, SHARER_WITH_CUDA, NULL);
        attach(&guest);
        expect_bytes(&guest, 4);
        sharer_must(&owner, "free");
        expect_held(1);
}

TEST(all_are_killed, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        sharer_kill(&guest);
        sharer_kill(&owner);
}

TEST(after_unshare_nobody_attaches_any_more)
{
        char other[GPUMEM_TOKEN_TEXT_BYTES];

        share("device");
        (void)snprintf(other, sizeof(other), "%s", sharer_must(&owner, "share"));
        ck_assert_str_ne(token, other);
        attach(&guest);
        sharer_must(&owner, "unshare %s", token);
        sharer_start(&third, SHARER_WITH_CUDA, NULL);
        expect_no_token(&third, "attach device");
        expect_no_token(&owner, "unshare");
        sharer_must(&owner, "fill 5");
        expect_bytes(&guest, 5);
        /* Each token is withdrawn by itself, and by anybody of the tenant. */
        sharer_must(&third, "attach device %s", other);
        expect_bytes(&third, 5);
        sharer_must(&third, "unshare %s", other);
        ck_assert_int_eq(sharer_tell(&owner, "attach device %s", other), GPUMEM_E_NO_TOKEN);
        sharer_end(&owner);
        sharer_end(&guest);
        expect_held(1);
}

TEST(pinned_memory_needs_no_cuda)
{
        sharer_start(&third, SHARER_WITHOUT_CUDA, NULL);
        share("pinned");
        attach(&third);
        expect_bytes(&third, 1);
        sharer_must(&third, "fill 6");
        expect_bytes(&owner, 6);
        sharer_must(&third, "detach");
        expect_held(1);
        /* Nor does sharing it: the guest copies out of it through its device. */
        sharer_must(&owner, "free");
        expect_nothing();
        sharer_must(&third, "alloc pinned %d", N_BYTES);
        sharer_must(&third, "fill 7");
        take_token(&third, "share");
        attach(&guest);
        expect_bytes(&guest, 7);
        sharer_end(&third);
        expect_bytes(&guest, 7);
}

/* What cannot be mapped is given back at once. */
TEST(device_memory_needs_cuda)
{
        share("device");
        sharer_start(&third, SHARER_WITHOUT_CUDA, NULL);
        ck_assert_int_eq(sharer_tell(&third, "attach device %s", token), GPUMEM_E_NO_DRIVER);
        expect_held(1);
}

TEST(a_stranger_attaches_by_a_grant_only, NEEDS_ROOT)
{
        daemon_admit_all(&gpumemd);
        sharer_start(&third, SHARER_WITHOUT_CUDA, STRANGER);
        share("pinned");
        expect_no_token(&third, "attach pinned");
        expect_no_token(&third, "unshare");
        take_token(&owner, "share 12346");
        expect_no_token(&third, "attach pinned");
        take_token(&owner, "share " STRANGER);
        attach(&third);
        expect_bytes(&third, 1);
        /* It was let in, but may not lock others out, nor let them in. */
        expect_no_token(&third, "unshare");
        ck_assert_int_eq(sharer_tell(&third, "share"), GPUMEM_E_NOT_SHAREABLE);
        attach(&guest);
        sharer_must(&guest, "fill 8");
        expect_bytes(&third, 8);
        sharer_must(&owner, "unshare %s", token);
        sharer_end(&guest);
        sharer_end(&owner);
        /* The block is another tenant's for life; its last holder is charged all the same. */
        expect_held(1);
        expect_bytes(&third, 8);
}

/* Shared memory goes to no other process afterwards: it is neither cached nor found with old bytes. */
TEST(what_was_shared_comes_anew, .to = ARRAY_SIZE(kinds))
{
        share(kinds[_i]);
        attach(&guest);
        sharer_must(&owner, "free");
        sharer_must(&guest, "detach");
        expect_nothing();
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        share(kinds[_i]);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 2);
        ck_assert_uint_eq(daemon_figure(FIGURE_cache_grants), 0);
}

TESTS_MAIN("share", .limit_s = 60, .start = start, .stop = stop)
