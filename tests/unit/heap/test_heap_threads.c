/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that allocate from several heaps and free to them under the heaps' locks, while others take
 * idle blocks, adopt, put idle and lease, one at a time, and one is the daemon, which asks no thread. The
 * thread sanitizer watches; here it is watched that nothing is handed out twice, that no thread has what
 * is idle or revoked, and that the sums come out. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/blocks/counters.h"
#include "client/reserve/heap_set.h"
#include "gpumem.h"
#include "proto/board.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/heap/thread_marks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_STEPS UINT64_C(100000)
#else
#define N_STEPS UINT64_C(1000000)
#endif

#define N_HEAPS     10 /* more than there are counters */
#define N_WORKERS   4
#define N_LIVE_MAX  40
#define N_RECORDS   N_GRANULES
#define N_EMPTY_MAX (32 * MIB)
#define YIELD_STEPS 50

/* So many times the steps, where the idler or the daemon had no turn meanwhile. */
#define MOST_TIMES 100

struct live {
        uint64_t address, n_bytes, n_requested_bytes;
};

struct worker {
        pthread_t thread;
        struct test_random random;
        unsigned n_live;
        struct live live[N_LIVE_MAX];
};

static pthread_mutex_t slow; /* guards what follows, but for the heaps' insides and granules */
static struct arena *arena;
static struct heap_set set;
static struct heap_block records[N_RECORDS];
static struct heap_block *unused[N_RECORDS];
static unsigned n_unused;
static uint64_t n_adopted, n_taken, n_put_idle, n_reused, n_revoked, n_moved, n_leases;

static struct set_heap heaps[N_HEAPS];
static struct counters counters;
static struct board_pool board;
static struct worker workers[N_WORKERS];
static uint64_t n_steps;
static _Atomic unsigned n_working;

/* Of the leases, by record. */
static _Atomic uint64_t words[N_RECORDS];

/* The heap that a granule was freed in last, and the epoch: written under the heap's lock. */
static _Atomic uint64_t freed_in[N_GRANULES];

/* The blocks that it lies in are busy, for as long as it lives. */
static void expect_busy(const struct live *live)
{
        uint64_t address = live->address, end = address + live->n_bytes;

        while (address < end) {
                struct heap_block *block = CONTAINER_OF(arena_find(arena, address),
                                                        struct heap_block, at);

                expect(block != NULL);
                if (!block)
                        return;
                expect(board_is(&words[block - records], block->lease, BOARD_BUSY));
                address = block->at.start + block->at.n_bytes;
        }
}

static void note_freed(const struct live *live, const struct heap *heap)
{
        uint64_t index = (uint64_t)(CONTAINER_OF(heap, struct set_heap, heap) - heaps);

        for (uint64_t i = (live->address - START) / HEAP_BLOCK_UNIT;
             i <= (live->address + live->n_bytes - 1 - START) / HEAP_BLOCK_UNIT; i++)
                freed_in[i] = index << 32 | heap->epoch;
}

/* Wherever the block was moved since: what was over then is over now. */
static void expect_done(const struct heap_block *block)
{
        for (uint64_t i = 0; i < block->at.n_bytes / HEAP_BLOCK_UNIT; i++) {
                uint64_t freed = freed_in[(block->at.start - START) / HEAP_BLOCK_UNIT + i];

                expect((uint32_t)freed < heaps[freed >> 32].heap.n_done_epochs);
        }
}

/* The caller has the heap's lock. */
static int cut(unsigned heap, uint64_t n_bytes, enum counter_event event, uint64_t *ret_address)
{
        int r = heap_alloc(&heaps[heap].heap, n_bytes, ret_address);

        if (!r)
                counters_count(&counters, counters_mine(&counters), event, n_bytes,
                               heap_round_up(n_bytes));
        return r;
}

static int hit(unsigned heap, uint64_t n_bytes, uint64_t *ret_address)
{
        int r;

        spin_lock(&heaps[heap].heap.lock);
        r = cut(heap, n_bytes, COUNTER_HIT, ret_address);
        spin_unlock(&heaps[heap].heap.lock);
        return r;
}

/* All work is over when it is asked for. The caller has the mutex, as below. */
static void pass_epochs(void)
{
        for (unsigned i = 0; i < N_HEAPS; i++) {
                spin_lock(&heaps[i].heap.lock);
                heaps[i].heap.n_done_epochs = heap_new_epoch(&heaps[i].heap) + 1;
                spin_unlock(&heaps[i].heap.lock);
        }
}

/* It is unmapped, and its lease over. */
static void give_back(struct heap_block *block, enum board_state state)
{
        expect(block->heap == NULL);
        expect(board_is(&words[block - records], block->lease, state));
        expect_unmarked(block);
        words[block - records] = 0;
        set.n_reserved_bytes -= block->at.n_bytes;
        arena_take_out(arena, &block->at);
        unused[n_unused++] = block;
}

static bool take_one(uint64_t start, uint64_t end)
{
        struct heap_block *block = heap_set_take_idle(&set, start, end);

        if (!block)
                return false;
        expect_done(block);
        give_back(block, BOARD_BUSY);
        return true;
}

static void unmap_revoked(void)
{
        struct heap_block *block;

        idle_list_sweep(&set.idle_list);
        while ((block = idle_list_next_revoked(&set.idle_list))) {
                expect_done(block);
                give_back(block, BOARD_REVOKED);
                n_revoked++;
        }
}

/* What is empty above a bound goes, but none between the two addresses. */
static void make_room(uint64_t start, uint64_t end)
{
        while (set.n_reserved_bytes > heap_set_allocated(&set) + N_EMPTY_MAX &&
               take_one(start, end))
                n_taken++;
}

/* What the caller of a lease does: the blocks stand in the arena before the heap has them. */
static int install(unsigned heap, const struct new_blocks *plan, uint64_t n_bytes,
                   uint64_t *ret_address)
{
        struct heap_block *blocks[NEW_BLOCKS_PARTS];
        int r;

        for (unsigned i = 0; i < plan->n_parts; i++) {
                blocks[i] = unused[--n_unused];
                /* Of a record that is used again, as the client does: others may look at its heap still. */
                blocks[i]->at = plan->parts[i];
                blocks[i]->lease = ++n_leases;
                blocks[i]->word = &words[blocks[i] - records];
                words[blocks[i] - records] = board_word(n_leases, BOARD_BUSY);
                expect(arena_put(arena, &blocks[i]->at) == 0);
                heap_set_count(&set, plan->parts[i].n_bytes);
        }
        spin_lock(&heaps[heap].heap.lock);
        for (unsigned i = 0; i < plan->n_parts; i++)
                expect(heap_add_block(&heaps[heap].heap, blocks[i]) == 0);
        r = cut(heap, n_bytes, COUNTER_MISS, ret_address);
        spin_unlock(&heaps[heap].heap.lock);
        return r;
}

/* Where it moves to, its bytes are those of no earlier owner. */
static void move(unsigned heap, const struct heap_set_move *to)
{
        struct heap_block *block = unused[--n_unused];

        expect_done(to->block);
        block->at = (struct arena_block){to->to, to->block->at.n_bytes};
        block->lease = ++n_leases;
        block->word = &words[block - records];
        words[block - records] = board_word(n_leases, BOARD_BUSY);
        give_back(to->block, BOARD_BUSY);
        heap_set_count(&set, block->at.n_bytes);
        expect(arena_put(arena, &block->at) == 0);
        spin_lock(&heaps[heap].heap.lock);
        expect(heap_add_block(&heaps[heap].heap, block) == 0);
        spin_unlock(&heaps[heap].heap.lock);
        n_moved++;
}

/* What stands in the place, then what moves there, then what is new. */
static int fill_place(unsigned heap, struct new_blocks *plan, uint64_t n_bytes,
                      uint64_t *ret_address)
{
        struct heap_set_move moves[HEAP_SET_MOVES];
        unsigned n;

        if (heap_set_take_planned(&set, &heaps[heap], plan))
                return GPUMEM_E_REFUSED;
        n = n_unused ? heap_set_take_moves(&set, &heaps[heap], HEAP_SET_ALL, HEAP_SET_MOVES, plan,
                                           moves)
                     : 0;
        for (unsigned i = 0; i < n; i++)
                move(heap, &moves[i]);
        make_room(plan->start, plan->end);
        return install(heap, plan, n_bytes, ret_address);
}

static int miss(unsigned heap, uint64_t n_bytes, uint64_t *ret_address)
{
        uint64_t n_rounded = heap_round_up(n_bytes);
        struct new_blocks plan;
        int r = GPUMEM_E_REFUSED;

        pthread_mutex_lock(&slow);
        pass_epochs();
        if (heap_set_reuse_idle(&set, &heaps[heap], n_rounded)) {
                n_reused++;
                r = hit(heap, n_bytes, ret_address);
        } else if (heap_set_adopt(&set, &heaps[heap], n_rounded)) {
                n_adopted++;
                r = hit(heap, n_bytes, ret_address);
        } else if (heap_set_plan(&set, &heaps[heap], n_rounded, HEAP_SET_ALL, &plan) == 0 &&
                   plan.n_parts <= n_unused) {
                r = fill_place(heap, &plan, n_bytes, ret_address);
        }
        pthread_mutex_unlock(&slow);
        return r;
}

static void alloc(struct worker *worker)
{
        unsigned heap = (unsigned)test_random_below(&worker->random, N_HEAPS);
        struct live live = {.n_requested_bytes = test_random_size(&worker->random, 4 * MIB)};
        int r;

        live.n_bytes = heap_round_up(live.n_requested_bytes);
        r = hit(heap, live.n_requested_bytes, &live.address);
        if (r == GPUMEM_E_REFUSED)
                r = miss(heap, live.n_requested_bytes, &live.address);
        expect(!r || r == GPUMEM_E_REFUSED);
        if (r)
                return;
        mark(live.address, live.n_bytes, 0, 1);
        expect_busy(&live);
        worker->live[worker->n_live++] = live;
}

/* As the client finds it: by arithmetic and without a lock. */
static struct heap *heap_at(uint64_t address)
{
        struct heap_block *block = CONTAINER_OF(arena_find(arena, address), struct heap_block, at);

        return block ? block->heap : NULL;
}

static void free_at(struct worker *worker, unsigned index)
{
        struct live live = worker->live[index];
        struct heap *heap = heap_at(live.address);
        struct heap_freed freed;

        worker->live[index] = worker->live[--worker->n_live];
        expect_busy(&live);
        mark(live.address, live.n_bytes, 1, 0);
        expect(heap != NULL);
        if (!heap)
                return;
        spin_lock(&heap->lock);
        note_freed(&live, heap);
        expect(heap_free(heap, live.address, &freed) == 0);
        expect(freed.n_requested_bytes == live.n_requested_bytes);
        counters_discount(counters_mine(&counters), freed.n_requested_bytes,
                          freed.n_allocated_bytes);
        spin_unlock(&heap->lock);
}

/* One's own allocation is there; any other address is another thread's, or free. */
static void look_up(struct worker *worker)
{
        uint64_t address = START + test_random_below(&worker->random, N_GRANULES * HEAP_BLOCK_UNIT);
        struct heap_allocation allocation;
        const struct live *live = NULL;
        struct heap *heap;

        if (worker->n_live && test_random_below(&worker->random, 2)) {
                live = &worker->live[test_random_below(&worker->random, worker->n_live)];
                address = live->address + test_random_below(&worker->random, live->n_bytes);
        }
        heap = heap_at(address);
        expect(heap || !live);
        if (!heap)
                return;
        spin_lock(&heap->lock);
        if (heap_find(heap, address, &allocation))
                expect(!live);
        else if (live)
                expect(allocation.start == live->address);
        spin_unlock(&heap->lock);
}

static bool has_all_happened(void)
{
        bool has;

        pthread_mutex_lock(&slow);
        has = n_taken && n_adopted && n_put_idle && n_reused && n_revoked && n_moved;
        pthread_mutex_unlock(&slow);
        return has;
}

static void *work(void *argument)
{
        struct worker *worker = argument;

        for (uint64_t step = 0;
             step < n_steps || (step < MOST_TIMES * n_steps && !has_all_happened()); step++) {
                uint64_t choice = test_random_below(&worker->random, 100);

                /* Where there are few processors the others get their turns, too. */
                if (step % YIELD_STEPS == 0)
                        (void)sched_yield();
                if (choice < 50 && worker->n_live < N_LIVE_MAX)
                        alloc(worker);
                else if (choice < 90 && worker->n_live)
                        free_at(worker,
                                (unsigned)test_random_below(&worker->random, worker->n_live));
                else
                        look_up(worker);
        }
        n_working--;
        return NULL;
}

/* Everybody is kept from counting meanwhile. */
static void move_board(struct board_pool *to)
{
        for (unsigned i = 0; i < N_HEAPS; i++)
                spin_lock(&heaps[i].heap.lock);
        counters_move(&counters, to);
        for (unsigned i = 0; i < N_HEAPS; i++)
                spin_unlock(&heaps[i].heap.lock);
}

static void keep(struct test_random *random)
{
        uint64_t start = START + test_random_below(random, N_GRANULES) * HEAP_BLOCK_UNIT;

        pthread_mutex_lock(&slow);
        pass_epochs();
        make_room(start, start + 16 * HEAP_BLOCK_UNIT);
        (void)heap_set_has_empty(&set);
        if (test_random_below(random, 8) == 0)
                move_board(test_random_below(random, 2) ? &board : NULL);
        if (test_random_below(random, 8) == 0)
                counters_reset_peaks(&counters);
        pthread_mutex_unlock(&slow);
        (void)sched_yield();
}

static void *put_idle(void *argument)
{
        (void)argument;
        while (n_working) {
                pthread_mutex_lock(&slow);
                unmap_revoked();
                pass_epochs();
                (void)heap_set_settle(&set);
                n_put_idle += heap_set_put_idle(&set, 0);
                heap_check(&set.idle_list.heap);
                pthread_mutex_unlock(&slow);
                (void)sched_yield();
        }
        return NULL;
}

/* Takes no lock, and does not wait. */
static void *be_daemon(void *argument)
{
        struct test_random *random = argument;

        while (n_working) {
                _Atomic uint64_t *word = &words[test_random_below(random, N_RECORDS)];

                (void)board_step(word, *word >> 8, BOARD_IDLE, BOARD_REVOKED);
                if (test_random_below(random, 16) == 0)
                        (void)sched_yield();
        }
        return NULL;
}

static void begin(void)
{
        struct test_random random = test_random_begin();

        n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);
        pthread_mutex_init(&slow, NULL);
        ck_assert_int_eq(arena_new(START, N_GRANULES * HEAP_BLOCK_UNIT, &arena), 0);
        heap_set_init(&set);
        heap_set_open(&set, arena, HEAP_JOINED);
        counters_init(&counters);
        for (unsigned i = 0; i < N_HEAPS; i++)
                heap_set_add(&set, &heaps[i], HEAP_JOINED);
        for (unsigned i = 0; i < N_RECORDS; i++)
                unused[n_unused++] = &records[i];
        for (unsigned i = 0; i < N_WORKERS; i++)
                workers[i].random.state = test_random_next(&random);
}

static void check_sums(void)
{
        uint64_t n_requested = 0, n_allocated = 0;
        struct board_sums sums;

        for (unsigned i = 0; i < N_HEAPS; i++) {
                heap_check(&heaps[i].heap);
                n_requested += heaps[i].heap.n_requested_bytes;
                n_allocated += heaps[i].heap.n_allocated_bytes;
        }
        sums = board_sum(counters.board);
        ck_assert_uint_eq(sums.requested, n_requested);
        ck_assert_uint_eq(sums.allocated, n_allocated);
}

static void end(void)
{
        check_sums();
        for (unsigned i = 0; i < N_WORKERS; i++) {
                while (workers[i].n_live)
                        free_at(&workers[i], 0);
        }
        check_sums();
        pass_epochs();
        while (take_one(0, 0))
                ;
        unmap_revoked();
        ck_assert_uint_eq(n_unused, N_RECORDS);
        ck_assert_uint_eq(set.n_reserved_bytes, 0);
        ck_assert_uint_eq(arena_room_above(arena, START), N_GRANULES * HEAP_BLOCK_UNIT);
        for (unsigned i = 0; i < N_HEAPS; i++)
                heap_set_remove(&set, &heaps[i]);
        heap_set_close(&set);
        counters_deinit(&counters);
        arena_free(arena);
}

TEST(nothing_is_handed_out_twice)
{
        struct test_random random = {.state = 1}, daemon_random = {.state = 2};
        pthread_t idler, daemon;

        begin();
        n_working = N_WORKERS;
        for (unsigned i = 0; i < N_WORKERS; i++)
                ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        ck_assert_int_eq(pthread_create(&idler, NULL, put_idle, NULL), 0);
        ck_assert_int_eq(pthread_create(&daemon, NULL, be_daemon, &daemon_random), 0);
        while (n_working)
                keep(&random);
        pthread_join(idler, NULL);
        pthread_join(daemon, NULL);
        for (unsigned i = 0; i < N_WORKERS; i++)
                pthread_join(workers[i].thread, NULL);
        end();
        ck_assert_uint_eq(n_wrong, 0);
        /* A short run may be poor in something. */
        if (n_steps < N_STEPS)
                return;
        ck_assert_uint_gt(n_taken, 0);
        ck_assert_uint_gt(n_adopted, 0);
        ck_assert_uint_gt(n_put_idle, 0);
        ck_assert_uint_gt(n_reused, 0);
        ck_assert_uint_gt(n_revoked, 0);
        ck_assert_uint_gt(n_moved, 0);
}

TESTS_MAIN("heap_threads", .limit_s = UNLIMITED)
