/* SPDX-License-Identifier: Apache-2.0 */
/* The slow path of an allocation, if no hole of the stream's heap holds the request: idle blocks of other streams,
 * where they are; blocks that are retained; idle blocks that move; then blocks from the daemon. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/blocks/addresses.h"
#include "client/blocks/lease.h"
#include "client/blocks/lease_messages.h"
#include "client/connection/reconnect.h"
#include "client/pool/moves.h"
#include "client/pool/pool.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/events.h"
#include "client/runtime/last_error.h"
#include "client/runtime/service_thread.h"
#include "gpumem.h"

#define WAIT_STEP_NS 50000

/* Records the present stream's frees, so that its blocks can move; the stream is alive now. */
static void fence(struct pool *pool, const struct pool_request *request, struct stream_heap *heap)
{
        if (empty_blocks_is_fenced(heap))
                fences_record(&heap->fences, heap_in(heap), pool->streams, &request->key,
                              request->stream);
        empty_blocks_poll(pool);
}

/* A block that was made without a context is not registered, but an allocation with a context must be. */
static bool may_adopt(const struct pool *pool, const struct pool_request *request)
{
        const struct stream_heap *heap;

        for (heap = pool->heaps; heap && request->key.context; heap = heap->hh.next) {
                if (!heap->key.context)
                        return false;
        }
        return true;
}

/* Makes the other heaps look how far their streams have come, since this one wants their freed memory. */
static void want(struct pool *pool, const struct stream_heap *heap)
{
        bool is_short = heap_set_is_short(&pool->heap_set, clock_now_us());
        struct stream_heap *other, *next;

        HASH_ITER(hh, pool->heaps, other, next)
        {
                if (other == heap)
                        continue;
                spin_lock(&heap_in(other)->lock);
                scan_trigger_note_lack(&other->trigger, is_short);
                spin_unlock(&heap_in(other)->lock);
        }
}

static enum heap_set_reach reach_of(const struct pool *pool, const struct pool_request *request,
                                    bool is_alone)
{
        return pool->heap_set.n_heaps > 1 && !is_alone && may_adopt(pool, request) ? HEAP_SET_ALL
                                                                                   : HEAP_SET_ALONE;
}

/* What a graph gets stays its own as long as it lives, so a capture takes no more than it needs. */
static bool recall(struct pool *pool, struct stream_heap *heap, uint64_t n_bytes)
{
        return !pool_is_captured(heap) &&
               heap_set_recall_loop(&pool->heap_set, &heap->in_set, n_bytes);
}

/* Takes blocks from the idle list, or idle blocks of other streams. */
static bool adopt(struct pool *pool, const struct pool_request *request, struct stream_heap *heap,
                  bool is_alone)
{
        uint64_t n_bytes = heap_round_up(request->n_bytes);

        if (recall(pool, heap, n_bytes) ||
            heap_set_reuse_idle(&pool->heap_set, &heap->in_set, n_bytes))
                return true;
        return reach_of(pool, request, is_alone) == HEAP_SET_ALL &&
               heap_set_adopt(&pool->heap_set, &heap->in_set, n_bytes);
}

static bool anything_pending(struct pool *pool)
{
        struct stream_heap *heap, *next;
        bool found = false;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                found = found || fences_wait_for(&heap->fences);
        }
        return found;
}

/* Makes room within the budget; if the request exceeds it by far, waits a while for work to end. The caller has the
 * lock, which is dropped meanwhile. */
static void make_room(struct pool *pool, const struct new_blocks *new_blocks,
                      struct leased_list *list)
{
        uint64_t since_us = clock_now_us(), until_us = since_us + HEAP_SET_WAIT_US;
        bool waited = false;

        empty_blocks_make_room(pool, new_blocks->n_bytes, new_blocks->start, new_blocks->end, list);
        while (heap_set_is_hard(&pool->heap_set, new_blocks->n_bytes) && anything_pending(pool) &&
               clock_now_us() < until_us) {
                waited = true;
                pthread_mutex_unlock(&pool->lock);
                (void)clock_nanosleep(CLOCK_MONOTONIC, 0,
                                      &(struct timespec){.tv_nsec = WAIT_STEP_NS}, NULL);
                pthread_mutex_lock(&pool->lock);
                empty_blocks_poll(pool);
                empty_blocks_make_room(pool, new_blocks->n_bytes, new_blocks->start,
                                       new_blocks->end, list);
        }
        if (waited)
                budget_wait(&pool->heap_set.budget, clock_now_us() - since_us);
}

/* Blocks that were planned, while they are being leased. */
struct parts {
        bool are_mapped; /* retained blocks, which are mapped already */
        unsigned n;
        unsigned n_mapped;
        struct leased *leased[NEW_BLOCKS_PARTS];
        uint64_t n_bytes[NEW_BLOCKS_PARTS];
};

/* The caller has the lock. */
static int reserve(struct pool *pool, const struct new_blocks *new_blocks, struct parts *parts)
{
        int r = 0;

        parts->n = parts->n_mapped = 0;
        for (unsigned i = 0; i < new_blocks->n_parts && !r; i++) {
                parts->n_bytes[i] = new_blocks->parts[i].n_bytes;
                r = leased_reserve(pool, new_blocks->parts[i].start,
                                   heap_set_most_bytes(&pool->heap_set, new_blocks, i),
                                   &parts->leased[i]);
                if (!r)
                        parts->n++;
        }
        return r;
}

/* Returns the leased blocks, which are unused and of no use alone, and gives up the other records. */
static void give_up(struct pool *pool, struct parts *parts)
{
        for (unsigned i = 0; i < parts->n_mapped; i++)
                leased_free(pool, parts->leased[i]);
        for (unsigned i = parts->n_mapped; i < parts->n; i++)
                leased_cancel(pool, parts->leased[i]);
        parts->n = parts->n_mapped = 0;
}

/* Gives up the parts above one that came smaller: they would not touch it. */
static void cancel_rest(struct pool *pool, struct parts *parts)
{
        while (parts->n > parts->n_mapped)
                leased_cancel(pool, parts->leased[--parts->n]);
}

/* Leases and maps the next part. A record whose lease fails is gone then. */
static int obtain_one(struct pool *pool, struct parts *parts, enum heap_set_parts kind,
                      uint32_t wait_ms)
{
        unsigned i = parts->n_mapped;
        uint64_t n_bytes = parts->n_bytes[i];
        int r = leased_obtain(pool, parts->leased[i], n_bytes, heap_set_least_bytes(n_bytes, kind),
                              wait_ms);

        if (r) {
                memmove(&parts->leased[i], &parts->leased[i + 1],
                        (parts->n - i - 1) * sizeof(parts->leased[0]));
                parts->n--;
                return r;
        }
        parts->n_mapped++;
        if (leased_bytes(parts->leased[i]) < n_bytes)
                cancel_rest(pool, parts);
        return 0;
}

/* Leases blocks that the daemon has cached, for all parts but the last, up to the first that none serves. */
static int obtain_cached(struct pool *pool, struct parts *parts, enum heap_set_parts kind)
{
        int r = 0;

        while (parts->n_mapped + 1 < parts->n && !r) {
                unsigned i = parts->n_mapped;
                uint64_t n_bytes = parts->n_bytes[i];

                r = leased_obtain_cached(pool, parts->leased[i], n_bytes,
                                         heap_set_least_bytes(n_bytes, kind));
                if (r)
                        break;
                parts->n_mapped++;
                if (leased_bytes(parts->leased[i]) < n_bytes)
                        cancel_rest(pool, parts);
        }
        if (r && r != GPUMEM_E_REFUSED && r != GPUMEM_E_UNSUPPORTED) {
                unsigned i = parts->n_mapped;

                memmove(&parts->leased[i], &parts->leased[i + 1],
                        (parts->n - i - 1) * sizeof(parts->leased[0]));
                parts->n--;
        }
        return r;
}

/* Leases all other parts, or none of them, so that a request that is refused takes nothing on its way. */
static int obtain_rest(struct pool *pool, struct parts *parts)
{
        unsigned at = parts->n_mapped;
        int r;

        for (unsigned i = at; i < parts->n; i++)
                leased_trim(pool, parts->leased[i], parts->n_bytes[i]);
        r = leased_obtain_together(pool, &parts->leased[at], parts->n - at, 0);
        if (r)
                parts->n = at;
        parts->n_mapped = parts->n;
        /* Too many requests of other threads wait. One block of the whole size is one request. */
        return r == GPUMEM_E_TOO_MANY ? GPUMEM_E_REFUSED : r;
}

/* Leases and maps the parts. */
static int obtain(struct pool *pool, struct parts *parts, enum heap_set_parts kind,
                  uint32_t wait_ms)
{
        int r = obtain_cached(pool, parts, kind);

        if (r == GPUMEM_E_REFUSED)
                r = obtain_rest(pool, parts);
        else if (r == GPUMEM_E_UNSUPPORTED)
                r = 0;
        while (parts->n_mapped < parts->n && !r)
                r = obtain_one(pool, parts, kind, wait_ms);
        if (r)
                give_up(pool, parts);
        return r;
}

/* Leases retained blocks of a plan again, up to the first that the daemon refuses. Retained blocks next to them would
 * be in the way of the rest, and are unmapped. A silent daemon ends the request. */
static int obtain_mapped(struct pool *pool, const struct new_blocks *new_blocks,
                         struct parts *parts)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        int r = 0;

        for (unsigned i = 0; i < new_blocks->n_parts && !r; i++) {
                r = lease_messages_renew(pool, new_blocks->parts[i].n_bytes, &parts->leased[i]);
                if (!r)
                        parts->n = ++parts->n_mapped;
        }
        if (r == GPUMEM_E_DISCONNECTED) {
                give_up(pool, parts);
                return r;
        }
        if (!r || !parts->n)
                return 0;
        pthread_mutex_lock(&pool->lock);
        retained_take_out(pool, RETAINED_DROP_FREELY, clock_now_us(), &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        return 0;
}

/* Adds the blocks to the heap and allocates in one step, so that no other thread gets them. The caller has the lock. */
static int install(struct pool *pool, struct stream_heap *heap, struct parts *parts,
                   uint64_t n_bytes, void **ret_pointer)
{
        unsigned n = 0;
        int r = 0;

        spin_lock(&heap_in(heap)->lock);
        while (n < parts->n && !r) {
                /* The client has left that connection, and its board will be gone. */
                if (parts->leased[n]->connection != pool->binding.connection)
                        parts->leased[n]->block.word = NULL;
                r = heap_add_block(heap_in(heap), &parts->leased[n]->block);
                if (!r) {
                        parts->leased[n]->is_unused = false;
                        n++;
                        heap_set_count(&pool->heap_set, leased_bytes(parts->leased[n - 1]));
                        pool_count_block(pool, leased_bytes(parts->leased[n - 1]));
                }
        }
        if (!r)
                r = pool_cut(heap, n_bytes, COUNTER_MISS, ret_pointer);
        spin_unlock(&heap_in(heap)->lock);
        empty_blocks_set_floors(pool);
        /* Blocks that are in the heap stay there. */
        memmove(&parts->leased[0], &parts->leased[n], (parts->n - n) * sizeof(parts->leased[0]));
        parts->n -= n;
        parts->n_mapped -= n;
        return r;
}

/* What one try of a request has at hand. */
struct
try {
        unsigned i;
        bool is_alone;         /* it takes no blocks of other heaps: see heap_set_may_grow */
        unsigned n_moves_left; /* of the request */
        struct stream_heap *heap;
        struct new_blocks new_blocks;
        struct moves moves;
        struct parts parts;
        struct leased_list list; /* blocks to be returned */
};

/* Is there all that the request needs, with what is moved and leased? */
static bool is_served(const struct try *try)
{
        return !try->parts.are_mapped && !try->parts.n && !try->moves.n;
}

static int find_place(struct pool *pool, const struct pool_request *request, struct try *try)
{
        uint64_t n_bytes = heap_round_up(request->n_bytes);
        struct set_heap *heap = &try->heap->in_set;
        enum heap_set_reach reach = reach_of(pool, request, try->is_alone);
        int r = heap_set_plan(&pool->heap_set, heap, n_bytes, reach, &try->new_blocks);

        if (r == -ENOMEM && addresses_widen(pool, n_bytes))
                r = heap_set_plan(&pool->heap_set, heap, n_bytes, reach, &try->new_blocks);
        return r;
}

/* Retained blocks are asked for by the first try, if something must be leased otherwise. */
static bool find_retained(struct pool *pool, const struct pool_request *request, struct try *try)
{
        struct new_blocks retained;

        if (try->i ||
            !retained_plan(pool, &try->heap->in_set, heap_round_up(request->n_bytes), &retained))
                return false;
        try->new_blocks = retained;
        return true;
}

/* Takes what stands in the place, moves what can be moved there, and plans to lease the rest. */
static int fill_place(struct pool *pool, const struct pool_request *request, struct try *try)
{
        int r = heap_set_take_planned(&pool->heap_set, &try->heap->in_set, &try->new_blocks);

        if (r)
                return r > 0 ? -EAGAIN : r;
        moves_plan(pool, try->heap, reach_of(pool, request, try->is_alone), try->n_moves_left,
                   &try->new_blocks, &try->moves);
        try->n_moves_left -= try->moves.n;
        return reserve(pool, &try->new_blocks, &try->parts);
}

/* Plans one try. The caller has the lock. */
static int plan(struct pool *pool, const struct pool_request *request, struct try *try)
{
        int r = pool_heap(pool, request, &try->heap);

        if (r)
                return r;
        fence(pool, request, try->heap);
        try->is_alone = heap_set_may_grow(&pool->heap_set, request->n_bytes, clock_now_us());
        if (!try->is_alone)
                want(pool, try->heap);
        if (adopt(pool, request, try->heap, try->is_alone))
                return 0;
        if (!try->i)
                heap_set_note_miss(&pool->heap_set, heap_round_up(request->n_bytes),
                                   clock_now_us());
        (void)heap_set_excess(&pool->heap_set, heap_round_up(request->n_bytes), pool_now_us(pool));
        r = find_place(pool, request, try);
        try->parts.are_mapped = (r || try->new_blocks.n_parts) && find_retained(pool, request, try);
        if (!try->parts.are_mapped && !r)
                r = fill_place(pool, request, try);
        else if (try->parts.are_mapped)
                r = 0;
        if (!r && try->new_blocks.n_parts)
                make_room(pool, &try->new_blocks, &try->list);
        return r;
}

bool pool_is_refusal(int r)
{
        return r == GPUMEM_E_REFUSED || r == GPUMEM_E_LIMIT || r == GPUMEM_E_TOO_LARGE ||
               r == GPUMEM_E_DEVICE_FULL || r == GPUMEM_E_STALLED;
}

/* Another thread has used the memory that was made available for the request. */
static int or_again(int r)
{
        return r == GPUMEM_E_REFUSED ? -EAGAIN : r;
}

/* Where runs are kept apart, smaller parts cannot be joined. */
static enum heap_set_parts parts_of_try(const struct pool *pool, unsigned try)
{
        return pool_runs(pool) == HEAP_SPLIT ? HEAP_SET_WHOLE_PARTS : heap_set_parts_of_try(try);
}

/* Moves and leases what is planned. -EAGAIN: it is not all there. */
static int obtain_all(struct pool *pool, struct try *try)
{
        int r;

        if (try->parts.are_mapped) {
                r = obtain_mapped(pool, &try->new_blocks, &try->parts);
                return r || try->parts.n ? r : -EAGAIN;
        }
        r = moves_make(pool, &try->moves);
        if (r) {
                try->n_moves_left = 0;
                give_up(pool, &try->parts);
                return r;
        }
        return try->parts.n ? obtain(pool, &try->parts, parts_of_try(pool, try->i), 0) : 0;
}

/* Adds to the heap what has come, and allocates if that is all. */
static int install_all(struct pool *pool, const struct pool_request *request, struct try *try,
                       int r, void **ret_pointer)
{
        struct stream_heap *heap = NULL;
        int failed;

        pthread_mutex_lock(&pool->lock);
        failed = pool_heap(pool, request, &heap);
        moves_install(pool, failed ? NULL : heap, &try->moves, &try->list);
        if (!r)
                r = failed;
        if (!r) {
                try->heap = heap;
                r = or_again(install(pool, heap, &try->parts, request->n_bytes, ret_pointer));
        }
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &try->list);
        give_up(pool, &try->parts);
        return r;
}

/* Tries without waiting for memory of others. -EAGAIN: another thread was faster. */
static int attempt(struct pool *pool, const struct pool_request *request, struct try *try,
                   void **ret_pointer)
{
        int r;

        pthread_mutex_lock(&pool->lock);
        pool_take_ended(pool, &try->list);
        retained_take_revoked(pool, RETAINED_DROP_EXCESS, &try->list);
        r = addresses_open(pool);
        if (!r)
                r = plan(pool, request, try);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &try->list);
        if (!r && is_served(try))
                return or_again(pool_hit(try->heap, &request->mark, request->n_bytes, ret_pointer));
        if (r && !try->moves.n) {
                give_up(pool, &try->parts);
                return r;
        }
        if (r) {
                moves_cancel(pool, &try->moves);
                return install_all(pool, request, try, r, ret_pointer);
        }
        pool_stop_clock(pool);
        r = obtain_all(pool, try);
        pool_start_clock(pool);
        return install_all(pool, request, try, r, ret_pointer);
}

/* Leases one block of the needed size, and may wait for it. If requests waited for parts one by one, they would wait
 * for parts that others hold for the same reason. */
static int attempt_whole(struct pool *pool, const struct pool_request *request,
                         struct stream_heap **ret_heap, void **ret_pointer)
{
        struct parts parts = {.n = 0};
        uint64_t n_block_bytes;
        int r;

        if (size_round_up(request->n_bytes, HEAP_BLOCK_UNIT, &n_block_bytes))
                return GPUMEM_E_TOO_LARGE;
        pthread_mutex_lock(&pool->lock);
        r = leased_reserve(pool, 0, n_block_bytes, &parts.leased[0]);
        if (!r)
                pool->n_waiting++;
        pthread_mutex_unlock(&pool->lock);
        if (r)
                return r;
        service_thread_nudge(pool->service);
        parts.n = 1;
        parts.n_bytes[0] = n_block_bytes;
        r = obtain(pool, &parts, HEAP_SET_WHOLE_PARTS, request->wait_ms);
        pthread_mutex_lock(&pool->lock);
        pool->n_waiting--;
        if (!r)
                r = pool_heap(pool, request, ret_heap);
        if (!r)
                r = install(pool, *ret_heap, &parts, request->n_bytes, ret_pointer);
        pthread_mutex_unlock(&pool->lock);
        give_up(pool, &parts);
        return r;
}

void pool_note_pressure(struct pool *pool, uint64_t n_bytes)
{
        struct gpumem_event event = {.kind = GPUMEM_EVENT_PRESSURE,
                                     .memory = pool->memory.kind,
                                     .place = pool_place(pool),
                                     .n_bytes = n_bytes};

        events_note(pool->reconnector->events, &event);
}

int pool_check_size(const struct pool *pool, uint64_t n_bytes)
{
        char asked[SIZE_TEXT_MAX], there[SIZE_TEXT_MAX], text[160];

        if (n_bytes <= pool->row.n_capacity_bytes)
                return 0;
        (void)snprintf(text, sizeof(text), "%s requested; all of %s is %s",
                       size_format(n_bytes, asked), pool->row.name,
                       size_format(pool->row.n_capacity_bytes, there));
        last_error_set(GPUMEM_E_TOO_LARGE, text);
        return GPUMEM_E_TOO_LARGE;
}

/* If there is no memory for a block of its own the next try takes other heaps' blocks. */
static int or_with_others(struct pool *pool, const struct try *try, int r)
{
        if (!pool_is_refusal(r) && r != GPUMEM_E_TOO_MANY)
                return r;
        pthread_mutex_lock(&pool->lock);
        heap_set_note_refused(&pool->heap_set, clock_now_us());
        pthread_mutex_unlock(&pool->lock);
        return try->is_alone ? -EAGAIN : r;
}

static int attempt_some(struct pool *pool, const struct pool_request *request,
                        struct stream_heap **ret_heap, void **ret_pointer)
{
        struct try try = {.n_moves_left = HEAP_SET_MOVES};
        int r = -EAGAIN;

        LIST_INIT(&try.list);
        for (; r == -EAGAIN && try.i < HEAP_SET_TRIES; try.i++) {
                try.parts = (struct parts){.n = 0};
                r = or_with_others(pool, &try, attempt(pool, request, &try, ret_pointer));
        }
        if (!r)
                *ret_heap = try.heap;
        return r;
}

/* The process has as many leases as it may. It ends those of empty blocks, and makes the next ones larger. */
static int alloc_in_fewer(struct pool *pool, const struct pool_request *request,
                          struct stream_heap **ret_heap, void **ret_pointer)
{
        pthread_mutex_lock(&pool->lock);
        heap_set_join(&pool->heap_set);
        pthread_mutex_unlock(&pool->lock);
        empty_blocks_all(pool);
        return attempt_some(pool, request, ret_heap, ret_pointer);
}

int pool_alloc(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap,
               void **ret_pointer)
{
        int r = attempt_some(pool, request, ret_heap, ret_pointer);

        if (r == GPUMEM_E_TOO_MANY)
                r = alloc_in_fewer(pool, request, ret_heap, ret_pointer);
        if (r != -EAGAIN && !pool_is_refusal(r) && r != GPUMEM_E_TOO_MANY)
                return r;
        /* The process gives up unused memory before it waits or fails. */
        pool_note_pressure(pool, request->n_bytes);
        empty_blocks_all(pool);
        r = attempt_whole(pool, request, ret_heap, ret_pointer);
        return r == -EAGAIN ? -ENOMEM : r;
}
