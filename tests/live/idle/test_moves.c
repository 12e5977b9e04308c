/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that move: what is free in pieces becomes the memory of one request, with the same blocks at other addresses.
 * What is in use stays, byte for byte; what work still uses, or a capture has, does not move; and a driver that fails in
 * the middle loses nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "client/api/client.h"
#include "client/mapping/mapping.h"
#include "client/pool/moves.h"
#include "client/reserve/heap_set.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define N_PIECES 8
#define PIECE    (8 * MIB)
#define N_FREED  (N_PIECES / 2)
#define LARGE    (N_FREED * PIECE)
#define BLOCK    (4 * MIB) /* of each piece but the first */
#define MOVED    0xa0      /* what is in the pieces that are freed, plus their number */

static struct cuda cuda;
static struct gate gate;
static struct capturer capturer;
static uint8_t *pieces[N_PIECES];
static unsigned n_moves, slow_us;
static void (*before_move)(void);          /* happens once, while a block is on its way */
static atomic_uint_least64_t stands_at_ns; /* the time, as long as it stands; 0: it goes on */

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
        uint64_t ns = atomic_load(&stands_at_ns);

        if (clock != CLOCK_MONOTONIC || !ns)
                return __real_clock_gettime(clock, ret_time);
        *ret_time = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                                      .tv_nsec = (long)(ns % NS_PER_S)};
        return 0;
}

int __real_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left);
int __wrap_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left);
int __wrap_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left)
{
        void (*happens)(void) = before_move;

        n_moves++;
        before_move = NULL;
        if (happens)
                happens();
        if (slow_us)
                (void)nanosleep(&(struct timespec){.tv_nsec = slow_us * 1000}, NULL);
        return __real_mapping_move(memory, peers, from, to, n_bytes, ret_is_gone, left);
}

static void start_with(const char *emulator)
{
        daemon_start(&gpumemd, emulator, NULL);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "1", 1), 0);
        solo_open(getuid());
        load_driver(&cuda);
        gate_init(&gate, &cuda);
        capturer_init(&capturer, &cuda);
        n_moves = slow_us = 0;
        before_move = NULL;
}

static void start(void)
{
        start_with("devices=1,bytes=1GiB");
}

static void start_two(void)
{
        start_with("devices=2,bytes=1GiB");
}

/* The driver has back every byte that the daemon counts: there is room for everything. */
static void stop(void)
{
        void *all;

        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_expect_empty();
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
        ck_assert_uint_eq(device_stats().n_blocks, 0);
        all = must_alloc(GPUMEM_DEVICE, GIB);
        must_free(all);
        gate_deinit(&gate);
        solo_stop();
}

static const struct test_case two_devices = {"two devices", .limit_s = 60, .start = start_two,
                                             .stop = stop};

static void faults(const char *lines)
{
        daemon_fault(&gpumemd, getpid(), lines);
}

static void fill(uint8_t *pointer, unsigned char byte, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_fill(gpu, pointer, byte, n_bytes), 0);
}

static unsigned char byte_at(const uint8_t *pointer)
{
        void *staged;

        ck_assert_int_eq(gpu_stage(gpu, 1, &staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, staged, pointer, 1), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        return *(unsigned char *)staged;
}

/* Some of each 64 KiB. */
static void expect_filled(const uint8_t *pointer, unsigned char byte, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_restart(gpu), 0);
        for (uint64_t i = 0; i < n_bytes; i += 512 * KIB)
                ck_assert_uint_eq(byte_at(pointer + i), byte);
        ck_assert_uint_eq(byte_at(pointer + n_bytes - 1), byte);
}

/* Every second piece will be freed, from the second on. */
static void fill_pieces(void)
{
        for (unsigned i = 0; i < N_PIECES; i++) {
                pieces[i] = must_alloc(GPUMEM_DEVICE, PIECE);
                fill(pieces[i], (unsigned char)(i % 2 ? MOVED + i : i + 1), PIECE);
        }
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
}

static void free_every_second(void)
{
        for (unsigned i = 1; i < N_PIECES; i += 2)
                must_free(pieces[i]);
}

/* However long the machine lets this process wait, the driver takes none of the time of the moves. */
static void *alloc_in_no_time(uint64_t n_bytes)
{
        void *pointer;

        atomic_store(&stands_at_ns, clock_now_ns());
        pointer = must_alloc(GPUMEM_DEVICE, n_bytes);
        atomic_store(&stands_at_ns, 0);
        return pointer;
}

/* All work is over, as the library knows. */
static void leave_every_second(void)
{
        fill_pieces();
        free_every_second();
        AWAIT(daemon_figure(FIGURE_idle) >= LARGE);
}

static void expect_neighbours(void)
{
        for (unsigned i = 0; i < N_PIECES; i += 2)
                expect_filled(pieces[i], (unsigned char)(i + 1), PIECE);
}

static void free_the_rest(void *large)
{
        for (unsigned i = 0; i < N_PIECES; i += 2)
                must_free(pieces[i]);
        must_free(large);
}

/* The blocks of the last piece are where they were: the run's end. */
static void expect_moved(const uint8_t *large)
{
        unsigned n_seen[N_PIECES] = {0};

        for (uint64_t at = 0; at < LARGE; at += BLOCK) {
                unsigned char byte = byte_at(large + at);

                ck_assert_uint_gt(byte, MOVED);
                ck_assert_uint_lt(byte, MOVED + N_PIECES);
                n_seen[byte - MOVED]++;
        }
        for (unsigned i = 1; i < N_PIECES; i += 2)
                ck_assert_uint_eq(n_seen[i], PIECE / BLOCK);
}

/* Nothing is leased, and no byte of a neighbour changes. The new memory is all there. */
TEST(pieces_become_one_run)
{
        struct gpumem_stats before, after;
        uint8_t *large;

        leave_every_second();
        before = device_stats();
        large = alloc_in_no_time(LARGE);
        after = device_stats();
        ck_assert_uint_eq(n_moves, (N_FREED - 1) * PIECE / BLOCK);
        ck_assert_uint_eq(after.n_blocks, before.n_blocks);
        ck_assert_uint_eq(after.n_reserved_bytes, before.n_reserved_bytes);
        ck_assert_uint_eq(after.n_misses, before.n_misses + 1);
        expect_moved(large);
        fill(large, 0x77, LARGE);
        expect_neighbours();
        expect_filled(large, 0x77, LARGE);
        free_the_rest(large);
}

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

/* At each address of the large one. */
static void expect_reached_by(int device, const uint8_t *large)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);
        __typeof__(cuMemGetAccess) *get_access = (__typeof__(get_access))dlsym(
                library, NAME_OF(cuMemGetAccess));
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

        for (uint64_t at = 0; at < LARGE; at += BLOCK) {
                unsigned long long flags = 0;

                ck_assert_int_eq(get_access(&flags, &location, (CUdeviceptr)(uintptr_t)large + at),
                                 CUDA_SUCCESS);
                ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        (void)dlclose(library);
}

TEST(peers_reach_what_has_moved, .in = &two_devices, NEEDS_TWO_DEVICES)
{
        uint8_t *large;

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        leave_every_second();
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        ck_assert_uint_gt(n_moves, 0);
        expect_reached_by(1, large);
        free_the_rest(large);
}

static pthread_t enabler;

static void *enable_peer(void *argument)
{
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        return argument;
}

/* It has to wait for the move. */
static void begin_to_enable(void)
{
        ck_assert_int_eq(pthread_create(&enabler, NULL, enable_peer, NULL), 0);
        sleep_ms(20);
}

/* The first block is out of all heaps then, and reached all the same when it arrives. */
TEST(access_may_change_while_a_block_moves, .in = &two_devices, NEEDS_TWO_DEVICES)
{
        uint8_t *large;

        leave_every_second();
        before_move = begin_to_enable;
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        ck_assert_int_eq(pthread_join(enabler, NULL), 0);
        expect_reached_by(1, large);
        free_the_rest(large);
}

/* The next message goes to the next daemon. */
static void change_daemons(void)
{
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, "0", NULL);
        (void)device_stats();
}

/* What has moved is held on the connection that has ended: its lease is marked nowhere any more. */
TEST(daemons_may_change_while_a_block_moves)
{
        uint8_t *large;

        leave_every_second();
        before_move = change_daemons;
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        fill(large, 0x77, LARGE);
        expect_neighbours();
        expect_filled(large, 0x77, LARGE);
        must_free(large);
        sleep_ms(50);
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        free_the_rest(large);
}

/* The work is of another stream, which waits; the frees are ordered with it by an event. Work on addresses that were
 * unmapped would spoil the context. */
TEST(what_work_still_uses_does_not_move)
{
        CUstream late;
        uint8_t *large;

        fill_pieces();
        DRIVER(cuStreamCreate, &late, CU_STREAM_NON_BLOCKING);
        gate_hold(&gate, late);
        for (unsigned i = 1; i < N_PIECES; i += 2)
                DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pieces[i], 0xee, PIECE, late);
        ck_assert_int_eq(gpumem_stream_register(client, late), 0);
        free_every_second();
        large = must_alloc(GPUMEM_DEVICE, 2 * LARGE);
        ck_assert_uint_eq(n_moves, 0);
        gate_open(&gate);
        DRIVER(cuStreamSynchronize, late);
        fill(large, 0x77, 2 * LARGE);
        expect_neighbours();
        expect_filled(large, 0x77, 2 * LARGE);
        free_the_rest(large);
}

/* One that is larger than 16 moves is served by new blocks for the rest. */
TEST(a_request_moves_no_more_than_sixteen)
{
        static uint8_t *many[48];
        uint8_t *large;

        for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
                many[i] = must_alloc(GPUMEM_DEVICE, BLOCK);
        for (unsigned i = 1; i < ARRAY_SIZE(many); i += 2)
                must_free(many[i]);
        AWAIT(daemon_figure(FIGURE_idle) >= ARRAY_SIZE(many) / 2 * BLOCK);
        large = alloc_in_no_time(ARRAY_SIZE(many) * BLOCK);
        ck_assert_uint_eq(n_moves, HEAP_SET_MOVES);
        fill(large, 0x77, ARRAY_SIZE(many) * BLOCK);
        expect_filled(large, 0x77, ARRAY_SIZE(many) * BLOCK);
        for (unsigned i = 0; i < ARRAY_SIZE(many); i += 2)
                must_free(many[i]);
        must_free(large);
}

/* One move takes all the time that there is. What has not moved stays where it is, and serves later. */
TEST(a_slow_driver_moves_little)
{
        uint8_t *large, *small;

        leave_every_second();
        slow_us = MOVES_US;
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        ck_assert_uint_le(n_moves, 1);
        slow_us = 0;
        small = must_alloc(GPUMEM_DEVICE, PIECE);
        fill(small, 0x66, PIECE);
        fill(large, 0x77, LARGE);
        expect_neighbours();
        expect_filled(small, 0x66, PIECE);
        expect_filled(large, 0x77, LARGE);
        must_free(small);
        free_the_rest(large);
}

/* In a loop (idle_patience.h): a request that is tried again counts once. */
TEST(a_request_of_several_tries_is_one_miss)
{
        struct pool *pool = client_pool_at(client, GPUMEM_DEVICE, 0);
        struct idle_patience patience;
        uint8_t *large;

        leave_every_second();
        pthread_mutex_lock(&pool->lock);
        pool->heap_set.patience.us = IDLE_PATIENCE_MAX_US;
        ck_assert(pool->heap_set.patience.has_put);
        pthread_mutex_unlock(&pool->lock);
        slow_us = MOVES_US;
        large = must_alloc(GPUMEM_DEVICE, LARGE);
        pthread_mutex_lock(&pool->lock);
        patience = pool->heap_set.patience;
        pthread_mutex_unlock(&pool->lock);
        ck_assert_uint_eq(n_moves, 1);
        ck_assert_uint_eq(patience.n_misses, 1);
        ck_assert_uint_eq(patience.n_others, 0);
        free_the_rest(large);
}

/* Each call of a move fails once, or so that no step can be taken back, in the first move and in a later one. */
static const char *const broken[] = {
        "fail=cuMemRetainAllocationHandle:1:999",
        "fail=cuMemRetainAllocationHandle:3:999",
        "fail=cuMemUnmap:1:999",
        "fail=cuMemUnmap:3:999",
        "fail=cuMemUnmap:*:999",
        "fail=cuMemMap:1:999",
        "fail=cuMemMap:3:999",
        "fail=cuMemSetAccess:1:999",
        "fail=cuMemSetAccess:3:999",
        "fail=cuMemSetAccess:1:999\nfail=cuMemUnmap:2:999",
        "fail=cuMemRelease:1:999",
        "fail=cuMemRelease:3:999",
        "fail=cuMemMap:1:999\nfail=cuMemRelease:1:999",
};

TEST(a_driver_that_fails_loses_nothing, .to = ARRAY_SIZE(broken), NEEDS_EMULATOR)
{
        void *large = NULL;

        leave_every_second();
        faults(broken[_i]);
        (void)try_alloc(GPUMEM_DEVICE, LARGE, &large);
        faults("");
        ck_assert_uint_gt(n_moves, 0);
        if (!large)
                large = must_alloc(GPUMEM_DEVICE, LARGE);
        fill(large, 0x77, LARGE);
        expect_neighbours();
        expect_filled(large, 0x77, LARGE);
        free_the_rest(large);
}

/* Its graph writes there at each replay. */
TEST(what_a_capture_has_freed_does_not_move)
{
        uint8_t *inside[N_FREED], *large;
        CUgraph graph;

        for (unsigned i = 0; i < N_PIECES; i += 2) {
                pieces[i] = must_alloc(GPUMEM_DEVICE, PIECE);
                fill(pieces[i], (unsigned char)(i + 1), PIECE);
        }
        capturer_begin(&capturer, gpu_stream(gpu), CU_STREAM_CAPTURE_MODE_GLOBAL);
        for (unsigned i = 0; i < N_FREED; i++) {
                inside[i] = must_alloc(GPUMEM_DEVICE, PIECE);
                DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)inside[i], 0xdd, PIECE,
                       gpu_stream(gpu));
        }
        for (unsigned i = 0; i < N_FREED; i++)
                must_free(inside[i]);
        graph = capturer_end(&capturer, gpu_stream(gpu));
        large = must_alloc(GPUMEM_DEVICE, 2 * LARGE);
        ck_assert_uint_eq(n_moves, 0);
        fill(large, 0x77, 2 * LARGE);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        capturer_replay(&capturer, graph, gpu_stream(gpu));
        expect_neighbours();
        expect_filled(large, 0x77, 2 * LARGE);
        capturer_destroy(&capturer, graph);
        free_the_rest(large);
}

/* Pieces with blocks of their own, whose memory another process or device may reach; and pinned memory. */
static const struct {
        enum gpumem_kind kind;
        uint32_t flags;
} staying[] = {
        {GPUMEM_DEVICE, GPUMEM_SHAREABLE}, {GPUMEM_DEVICE, GPUMEM_REGISTERED}, {GPUMEM_PINNED, 0}};

TEST(what_others_may_reach_does_not_move, .to = ARRAY_SIZE(staying))
{
        void *large;

        for (unsigned i = 0; i < N_PIECES; i++) {
                struct gpumem_request request = request_of(staying[_i].kind, PIECE);
                void *pointer;

                request.flags = staying[_i].flags;
                ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
                pieces[i] = pointer;
        }
        free_every_second();
        large = must_alloc(staying[_i].kind, LARGE);
        ck_assert_uint_eq(n_moves, 0);
        free_the_rest(large);
}

TESTS_MAIN("moves", .limit_s = 60, .start = start, .stop = stop)
