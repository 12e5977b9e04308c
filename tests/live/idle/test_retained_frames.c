/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory that is returned and stays mapped, past the library: it is charged to the client that
 * retains it, on every way into the cache. */
#include "proto/board.h"
#include "tests/live/support/world.h"

/* The pool has 256 MiB, so it is never full. */
#define LIMIT  (48 * MIB)
#define N_KEPT 4 /* blocks of 4, 8, 12 and 16 MiB: a fifth one exceeds the limit */

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=64MiB", OPTIONS("--pinned-bytes", "256MiB"));
}

static int try_lease(struct member *keeper, uint64_t n_bytes, struct message_leased *ret_leased)
{
        const struct message_lease wanted = {
                .n_bytes = n_bytes, .pool = keeper->pinned, .flags = PROTO_LEASE_KEEPS};

        return lease_over(keeper->link, &wanted, ret_leased);
}

static struct message_leased lease(struct member *keeper, uint64_t n_bytes)
{
        struct message_leased leased = {.lease = 0};

        ck_assert_int_eq(try_lease(keeper, n_bytes, &leased), 0);
        return leased;
}

static void must_be_refused(struct member *keeper, uint64_t n_bytes, const char *why)
{
        struct message_leased leased;
        char text[LINK_REFUSAL_MAX];

        ck_assert_int_eq(try_lease(keeper, n_bytes, &leased), GPUMEM_E_LIMIT);
        link_refusal(keeper->link, text);
        must_contain(text, why);
}

static void limit(const struct member *keeper, uint32_t scope, uint64_t max)
{
        const struct message_set_limits change = {.scope = scope,
                                                  .holder = PROTO_LIMIT_OF_EACH,
                                                  .kind = PROTO_LIMIT_PINNED_BYTES,
                                                  .max = max};

        ck_assert_int_eq(set_limit_over(keeper->link, &change, NULL), 0);
}

/* Each block is larger than all before, so none of these serves it. */
TEST(given_back_again_and_again_it_is_no_more_than_the_limit)
{
        struct member keeper = member_join("keeper");
        struct message_leased leased[N_KEPT], again;
        uint64_t n_kept_bytes = 0;

        limit(&keeper, PROTO_LIMIT_OF_CLIENT, LIMIT);
        for (unsigned i = 0; i < N_KEPT; i++) {
                leased[i] = lease(&keeper, (i + 1) * 4 * MIB);
                return_over(keeper.link, leased[i].lease, 0);
                n_kept_bytes += leased[i].n_bytes;
        }
        must_be_refused(&keeper, 20 * MIB, "given back, but still mapped");
        must_be_refused(&keeper, 20 * MIB, "gpumem_flush");
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), n_kept_bytes);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), n_kept_bytes);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), n_kept_bytes);
        /* The last block is granted again all the same. */
        again = lease(&keeper, N_KEPT * 4 * MIB);
        ck_assert_uint_eq(again.block, leased[N_KEPT - 1].block);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), n_kept_bytes);
        return_over(keeper.link, again.lease, PROTO_RETURN_UNMAPPED);
        for (unsigned i = 0; i < N_KEPT; i++)
                unmapped_over(keeper.link, leased[i].lease);
        member_end(&keeper);
}

TEST(what_is_unmapped_is_charged_no_more)
{
        struct member keeper = member_join("keeper");
        struct message_leased leased;

        limit(&keeper, PROTO_LIMIT_OF_TENANT, LIMIT);
        leased = lease(&keeper, LIMIT);
        return_over(keeper.link, leased.lease, 0);
        must_be_refused(&keeper, 2 * MIB, "tenant uid");
        unmapped_over(keeper.link, leased.lease);
        leased = lease(&keeper, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 2 * MIB);
        return_over(keeper.link, leased.lease, PROTO_RETURN_UNMAPPED);
        member_end(&keeper);
}

/* A second process of the tenant takes each idle block and returns it at once. */
TEST(by_way_of_a_second_client_it_is_no_more_either)
{
        struct member one = member_join("keeper"), other = member_join("keeper");
        struct message_leased mine[N_KEPT], its;
        uint64_t n_kept_bytes = 0;

        limit(&one, PROTO_LIMIT_OF_TENANT, LIMIT);
        for (unsigned i = 0; i < N_KEPT; i++) {
                mine[i] = lease(&one, (i + 1) * 4 * MIB);
                ck_assert(board_step(&one.words[mine[i].slot], mine[i].lease, BOARD_BUSY,
                                     BOARD_IDLE));
                its = lease(&other, mine[i].n_bytes);
                ck_assert_uint_eq(its.block, mine[i].block);
                return_over(other.link, its.lease, PROTO_RETURN_UNMAPPED);
                n_kept_bytes += mine[i].n_bytes;
        }
        must_be_refused(&other, 20 * MIB, "still mapped");
        must_be_refused(&one, 20 * MIB, "still mapped");
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), n_kept_bytes);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), n_kept_bytes);
        for (unsigned i = 0; i < N_KEPT; i++)
                unmapped_over(one.link, mine[i].lease);
        daemon_await(FIGURE_charged, 0);
        its = lease(&other, 20 * MIB);
        return_over(other.link, its.lease, PROTO_RETURN_UNMAPPED);
        member_end(&one);
        member_end(&other);
}

TESTS_MAIN("retained_frames", .limit_s = 120, .start = start, .stop = gpumemd_stop_empty)
