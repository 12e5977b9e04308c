/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose driver fails now and then: mappings that failed, and unmappings that failed, are
 * remembered and retried. */
#include <errno.h>
#include <sys/mman.h>

#include "client/mapping/mapping.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define PIECE (64 * MIB)

static void start(void)
{
        solo_start("devices=1,bytes=256MiB,reclaim_ms=50", NULL);
}

static void start_slow(void)
{
        solo_start("devices=1,bytes=256MiB,reclaim_ms=50,copy_delay_us=300000", NULL);
}

static void start_large(void)
{
        solo_start("devices=1,bytes=141GiB", NULL);
}

static void faults(const char *lines)
{
        daemon_fault(&gpumemd, getpid(), lines);
}

static int alloc(uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = request_in(NULL, GPUMEM_DEVICE, n_bytes);

        return gpumem_alloc(client, &request, ret_pointer);
}

/* Device memory, without a stream. */
static void *must_alloc_piece(void)
{
        void *pointer;

        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        return pointer;
}

/* The driver has back every byte that the daemon counts: there is room for everything. */
static void end(void)
{
        void *pointer;

        faults("");
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_expect_empty();
        ck_assert_int_eq(alloc(256 * MIB, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, 256 * MIB), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        solo_close();
        gpumemd_stop_uncharged();
}

static void end_left(void)
{
        solo_close();
        gpumemd_stop();
}

static const struct test_case left = {"left", .limit_s = 60, .start = start, .stop = end_left};
static const struct test_case slow = {"slow", .limit_s = 120, .start = start_slow, .stop = end};
static const struct test_case large = {"large", .limit_s = 120, .start = start_large, .stop = end};

/* The addresses are not reused before the block has gone. */
TEST(a_block_that_is_half_mapped_is_unmapped_later)
{
        void *pointer;

        faults("fail=cuMemSetAccess:1:999\nfail=cuMemUnmap:*:999");
        ck_assert_int_eq(alloc(PIECE, &pointer), -EIO);
        ck_assert_uint_ne(daemon_figure(FIGURE_charged), 0);
        pointer = must_alloc_piece();
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

/* As a driver that cannot map, where the client asks for a cached block first: its record is that of the stuck block. */
TEST(a_cached_block_that_the_driver_can_neither_map_nor_release_is_stuck_once, .to = 2)
{
        void *pointer, *other;

        ck_assert_int_eq(gpumem_free_sync(client, must_alloc_piece()), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_await(FIGURE_leased, 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_cached), PIECE);
        faults(_i ? "fail=cuMemMap:*:801\nfail=cuMemRelease:*:801"
                  : "fail=cuMemMap:1:801\nfail=cuMemRelease:1:999");
        ck_assert_int_eq(alloc(PIECE, &pointer), -EIO);
        faults("");
        pointer = must_alloc_piece();
        other = must_alloc_piece();
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpu_fill(gpu, other, 1, PIECE), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_int_eq(gpumem_free_sync(client, other), 0);
}

TEST(a_handle_that_is_not_taken_back_is_let_go_with_its_block)
{
        faults("fail=cuMemRelease:1:999");
        ck_assert_int_eq(gpumem_free_sync(client, must_alloc_piece()), 0);
}

TEST(a_block_that_is_not_unmapped_stays_leased_and_is_tried_again)
{
        void *pointer = must_alloc_piece();

        faults("fail=cuMemUnmap:*:999");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_charged), PIECE);
}

/* The client unmaps at the latest when it leaves; a block that it cannot unmap even then stays charged to
 * it until the process ends. */
TEST(who_leaves_unmaps_what_it_can)
{
        void *pointer = must_alloc_piece();

        faults("fail=cuMemUnmap:1:999");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        gpumem_disconnect(client);
        client = connect_client();
}

/* What is still registered stays charged, and where it is: the driver would take what is mapped there next for it. */
TEST(who_leaves_keeps_the_addresses_of_what_stays_registered, .in = &left)
{
        unsigned char *pointer = must_alloc(GPUMEM_PINNED, PIECE);

        faults("fail=cuMemHostUnregister:*:999");
        gpumem_disconnect(client);
        ck_assert_int_eq(msync(pointer, PIECE, MS_ASYNC), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_charged), PIECE);
        faults("");
        client = connect_client();
        must_free(must_alloc(GPUMEM_PINNED, PIECE));
}

/* Work that is not done keeps its memory: a failed wait does not count as one. */
TEST(who_leaves_waits_for_work_though_the_driver_fails_once, .in = &slow)
{
        void *pointer;

        /* Without a cache the free would wait. */
        gpumem_disconnect(client);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        client = connect_client();
        pointer = must_alloc(GPUMEM_DEVICE, PIECE);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        must_free(pointer);
        faults("fail=cuMemHostRegister:1:999\nfail=cuMemAlloc:1:2");
        gpumem_disconnect(client);
        faults("");
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        daemon_await(FIGURE_charged, 0);
        client = connect_client();
}

/* The work is not done when the wait begins. */
TEST(a_free_without_a_stream_waits_though_no_page_can_be_registered, .in = &slow)
{
        unsigned char *seen;
        void *pointer, *staged;

        ck_assert_int_eq(gpu_stage(gpu, 1, &staged), 0);
        seen = staged;
        *seen = 0;
        pointer = must_alloc(GPUMEM_DEVICE, PIECE);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, seen, pointer, 1), 0);
        faults("fail=cuMemHostRegister:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_uint_eq(*seen, 1);
}

TEST(a_free_without_a_stream_frees_nothing_where_it_cannot_wait)
{
        void *pointer = must_alloc_piece();

        faults("fail=cuMemHostRegister:*:999\nfail=cuMemAlloc:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), -EIO);
        faults("fail=cuMemHostRegister:*:2\nfail=cuMemAlloc:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_DEVICE_FULL);
        faults("");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

/* The process's remaining addresses, as with RLIMIT_AS. */
static uint64_t n_most_addresses = UINT64_MAX;

int __real_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
int __wrap_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
int __wrap_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address)
{
        return n_bytes > n_most_addresses ? -ENOMEM
                                          : __real_mapping_reserve(memory, n_bytes, ret_address);
}

static void use(enum gpumem_kind kind, void *pointer, uint64_t n_bytes)
{
        if (kind == GPUMEM_PINNED)
                memset(pointer, 1, n_bytes);
        else
                ck_assert_int_eq(gpu_fill(gpu, pointer, 1, n_bytes), 0);
}

/* Allocations made meanwhile stay in place; for each kind, shared or not. */
TEST(few_addresses_are_few_no_longer_than_that, .to = 4, .in = &large)
{
        static const struct {
                uint64_t n_addresses, n_bytes;
                bool is_there;
        } steps[] = {{0, MIB, false},
                     {4 * MIB, MIB, true},
                     {4 * MIB, 16 * MIB, false},
                     {24 * MIB, 16 * MIB, true},
                     {24 * MIB, PIECE, false},
                     {UINT64_MAX, PIECE, true}};
        enum gpumem_kind kind = _i & 1 ? GPUMEM_PINNED : GPUMEM_DEVICE;
        void *pointers[ARRAY_SIZE(steps)];

        for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
                struct gpumem_request request = request_in(NULL, kind, steps[i].n_bytes);

                request.flags = _i & 2 ? GPUMEM_SHAREABLE : 0;
                n_most_addresses = steps[i].n_addresses;
                ck_assert_int_eq(gpumem_alloc(client, &request, &pointers[i]),
                                 steps[i].is_there ? 0 : -ENOMEM);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
                if (steps[i].is_there)
                        use(kind, pointers[i], steps[i].n_bytes);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
                if (steps[i].is_there)
                        ck_assert_int_eq(gpumem_free_sync(client, pointers[i]), 0);
        }
}

TESTS_MAIN("client_faults", .limit_s = 120, .start = start, .stop = end,
           .can_run = machine_is_emulated, .needs = "faults of the emulated driver")
