/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory that is given back and kept mapped, past the library: it is charged to who keeps it, whatever
 * way it came to be in the cache. */
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/board.h"
#include "tests/live/daemon.h"
#include "tests/live/links.h"
#include "tests/suite.h"

/* Of 256 MiB, so that the pool is in nobody's way. */
#define LIMIT  (48 * MIB)
#define N_KEPT 4 /* blocks of 4, 8, 12 and 16 MiB: one more is too many */

static struct daemon gpumemd;

static void start(void)
{
        static const char *const options[] = {"--pinned-bytes", "256MiB", NULL};

        daemon_start(&gpumemd, "devices=1,bytes=64MiB", options);
}

static void stop(void)
{
        daemon_stop_empty(&gpumemd);
}

struct keeper {
        struct link *link;
        void *board;
        size_t n_board_bytes;
        _Atomic uint64_t *words;
        uint32_t pool; /* of pinned memory: the last one */
};

static struct keeper join(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct keeper keeper = {.link = NULL};

        ck_assert_int_eq(link_new(NULL, "keeper", &keeper.link, &welcome, &fds), 0);
        keeper.n_board_bytes = welcome.n_board_bytes;
        keeper.pool = welcome.n_pools - 1;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], keeper.n_board_bytes, &keeper.board), 0);
        keeper.words = board_words(keeper.board, welcome.n_pools);
        fdset_deinit(&fds);
        return keeper;
}

static void leave(struct keeper *keeper)
{
        keeper->link = link_free(keeper->link);
        (void)munmap(keeper->board, keeper->n_board_bytes);
}

static int try_lease(struct keeper *keeper, uint64_t n_bytes, struct message_leased *ret_leased)
{
        const struct message_lease wanted = {
                .n_bytes = n_bytes, .pool = keeper->pool, .flags = PROTO_LEASE_KEEPS};

        return lease_over(keeper->link, &wanted, ret_leased);
}

static struct message_leased lease(struct keeper *keeper, uint64_t n_bytes)
{
        struct message_leased leased = {.lease = 0};

        ck_assert_int_eq(try_lease(keeper, n_bytes, &leased), 0);
        return leased;
}

static void must_be_refused(struct keeper *keeper, uint64_t n_bytes, const char *why)
{
        struct message_leased leased;
        char text[LINK_REFUSAL_MAX];

        ck_assert_int_eq(try_lease(keeper, n_bytes, &leased), GPUMEM_E_LIMIT);
        link_refusal(keeper->link, text);
        ck_assert_msg(strstr(text, why), "%s", text);
}

static void limit(const struct keeper *keeper, uint32_t scope, uint64_t max)
{
        const struct message_set_limits change = {.scope = scope,
                                                  .holder = PROTO_LIMIT_OF_EACH,
                                                  .kind = PROTO_LIMIT_PINNED_BYTES,
                                                  .max = max};

        ck_assert_int_eq(set_limit_over(keeper->link, &change, NULL), 0);
}

/* Each block is larger than all before: none of these serves it. */
TEST(given_back_again_and_again_it_is_no_more_than_the_limit)
{
        struct keeper keeper = join();
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
        /* The last one comes again all the same. */
        again = lease(&keeper, N_KEPT * 4 * MIB);
        ck_assert_uint_eq(again.block, leased[N_KEPT - 1].block);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), n_kept_bytes);
        return_over(keeper.link, again.lease, PROTO_RETURN_UNMAPPED);
        for (unsigned i = 0; i < N_KEPT; i++)
                unmapped_over(keeper.link, leased[i].lease);
        leave(&keeper);
}

TEST(what_is_unmapped_is_charged_no_more)
{
        struct keeper keeper = join();
        struct message_leased leased;

        limit(&keeper, PROTO_LIMIT_OF_TENANT, LIMIT);
        leased = lease(&keeper, LIMIT);
        return_over(keeper.link, leased.lease, 0);
        must_be_refused(&keeper, 2 * MIB, "tenant uid");
        unmapped_over(keeper.link, leased.lease);
        leased = lease(&keeper, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 2 * MIB);
        return_over(keeper.link, leased.lease, PROTO_RETURN_UNMAPPED);
        leave(&keeper);
}

/* A second process of the tenant takes each block while it is idle and gives it back at once. */
TEST(by_way_of_a_second_client_it_is_no_more_either)
{
        struct keeper one = join(), other = join();
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
        leave(&one);
        leave(&other);
}

TESTS_MAIN("kept_frames", .limit_s = 120, .start = start, .stop = stop)
