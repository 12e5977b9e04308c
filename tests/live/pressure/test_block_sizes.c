/* SPDX-License-Identifier: Apache-2.0 */
/* How large the blocks of a process are: large for large requests, so that these cost few leases; small for small
 * ones, so that a small allocation that is left keeps little memory from others; and larger once there are many. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define PIECE_BYTES (64 * KIB)

static void start_large(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=64GiB", NULL);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        solo_open(getuid());
}

static uint64_t n_blocks(void)
{
        return device_stats().n_blocks;
}

/* Of the 3.75 GiB that are freed at least 58 parts of 60 are idle, so that any other process may take them. */
#define N_TENSORS    60
#define TENSOR_BYTES (64 * MIB)

static void leave_a_piece(unsigned n_before)
{
        static void *tensors[N_TENSORS];
        void *piece = NULL;

        for (unsigned i = 0; i < N_TENSORS; i++) {
                if (i == n_before)
                        piece = must_alloc(GPUMEM_DEVICE, PIECE_BYTES);
                tensors[i] = must_alloc(GPUMEM_DEVICE, TENSOR_BYTES);
        }
        for (unsigned i = 0; i < N_TENSORS; i++)
                must_free(tensors[i]);
        AWAIT(daemon_figure(FIGURE_idle) >= (N_TENSORS - 2) * TENSOR_BYTES);
        must_free(piece);
}

TEST(a_small_piece_leaves_the_rest_to_others, .to = 3)
{
        static const unsigned n_before[] = {0, 1, N_TENSORS / 2};

        leave_a_piece(n_before[_i]);
}

/* Sizes that do not fill their blocks, and a piece after each: it takes no rest of a large block while a small block
 * has room. */
TEST(small_pieces_share_small_blocks)
{
        void *tensors[16], *pieces[16], *first = must_alloc(GPUMEM_DEVICE, PIECE_BYTES);
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(tensors); i++) {
                tensors[i] = must_alloc(GPUMEM_DEVICE, 127 * MIB);
                pieces[i] = must_alloc(GPUMEM_DEVICE, PIECE_BYTES);
                n_bytes += 127 * MIB;
        }
        for (unsigned i = 0; i < ARRAY_SIZE(tensors); i++)
                must_free(tensors[i]);
        AWAIT(daemon_figure(FIGURE_idle) >= n_bytes);
        for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++)
                must_free(pieces[i]);
        must_free(first);
}

TEST(large_requests_have_blocks_of_a_gibibyte_at_most)
{
        void *large = must_alloc(GPUMEM_DEVICE, 10 * GIB), *other;

        ck_assert_uint_eq(n_blocks(), 10);
        other = must_alloc(GPUMEM_DEVICE, 80 * MIB);
        ck_assert_uint_eq(n_blocks(), 11);
        must_free(other);
        must_free(large);
}

TEST(what_may_be_shared_is_one_block)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, 3 * GIB);
        void *shared;

        request.flags = GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &shared), 0);
        ck_assert_uint_eq(n_blocks(), 1);
        must_free(shared);
}

/* The daemon has files for 384 blocks, of which one tenant may have 307. */
static void start_with_few_files(void)
{
        const struct rlimit few = {2048, 2048};

        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        start_large();
}

static const struct test_case few_files = {.name = "block sizes, few files",
                                           .limit_s = 300,
                                           .start = start_with_few_files,
                                           .stop = solo_stop};

TEST(clients_know_how_many_blocks_there_may_be, .in = &few_files)
{
        struct member member = member_join("test");

        ck_assert_uint_eq(member.n_slots, 384);
        member_end(&member);
}

/* 95 % of 64 GiB. */
#define MOST_BYTES (64 * GIB / 100 * 95)

#define PAIRS_MAX 32768

/* A small allocation is left in each block. In the next round the holes are too small for what is asked for. */
static void fill_and_leave(uint64_t n_bytes, uint64_t until_bytes)
{
        static void *passing[PAIRS_MAX];
        unsigned n = 0;

        while (device_stats().n_reserved_bytes < until_bytes) {
                ck_assert_uint_lt(n, PAIRS_MAX);
                passing[n++] = must_alloc(GPUMEM_DEVICE, n_bytes);
                (void)must_alloc(GPUMEM_DEVICE, PIECE_BYTES);
        }
        while (n)
                must_free(passing[--n]);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
}

TEST(small_survivors_do_not_use_up_the_leases, .in = &few_files)
{
        fill_and_leave(2 * MIB - PIECE_BYTES, MOST_BYTES / 4);
        fill_and_leave(4 * MIB - PIECE_BYTES, MOST_BYTES / 2);
        fill_and_leave(6 * MIB, MOST_BYTES);
        ck_assert_uint_lt(n_blocks(), 307);
}

/* A client that has all blocks for which there are files, and returns one to a request that waits. */
struct taker {
        struct link *link;
        uint64_t leases[384];
        unsigned n;
};

static void take_all(struct taker *taker)
{
        const struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_leased leased;

        while (!lease_over(taker->link, &wanted, &leased)) {
                ck_assert_uint_lt(taker->n, ARRAY_SIZE(taker->leases));
                taker->leases[taker->n++] = leased.lease;
        }
}

static void give_one_back(struct taker *taker)
{
        return_over(taker->link, taker->leases[--taker->n], PROTO_RETURN_UNMAPPED);
}

static void *give_when_one_waits(void *argument)
{
        daemon_await(FIGURE_waiting, 1);
        give_one_back(argument);
        return NULL;
}

TEST(a_request_waits_for_a_lease, .in = &few_files)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, PIECE_BYTES);
        struct taker taker = {.link = open_link("taker", NULL)};
        pthread_t thread;
        void *piece;

        take_all(&taker);
        ck_assert_int_eq(gpumem_alloc(client, &request, &piece), GPUMEM_E_TOO_MANY);
        request.wait_ms = 20000;
        ck_assert_int_eq(pthread_create(&thread, NULL, give_when_one_waits, &taker), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &piece), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        must_free(piece);
        while (taker.n)
                give_one_back(&taker);
        link_free(taker.link);
}

TESTS_MAIN("block sizes", .limit_s = 300, .start = start_large, .stop = solo_stop)
