/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/idle_marking.h"

#include <assert.h>

#include "base/clock.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/service_thread.h"

static_assert(HEAP_SET_LOOK_US == SERVICE_THREAD_SOON_MS * 1000, "with a thread or without");

bool idle_marking_is_on(const struct pool *pool)
{
        return !heap_set_is_bounded(&pool->heap_set);
}

/* What is idle already is the process's again, in whichever heap: others adopt it from there. The caller has the lock. */
static void recall_idle(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (!pool_is_captured(heap)) {
                        heap_set_recall_idle(&pool->heap_set, &heap->in_set);
                        return;
                }
        }
}

/* Nothing that was granted or due with another size counts any more. The caller has the lock. */
static void begin_triggers(struct pool *pool)
{
        uint32_t n_heaps = pool->heap_set.n_heaps;
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                if (idle_marking_is_on(pool))
                        scan_trigger_begin_unbounded(&heap->trigger, scan_trigger_share(n_heaps),
                                                     n_heaps);
                else
                        scan_trigger_begin_bounded(&heap->trigger);
                spin_unlock(&heap_in(heap)->lock);
        }
}

/* What was others' already is unmapped: no look is due that would do it later. */
void idle_marking_resize(struct pool *pool, uint64_t n_cache_bytes)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);

        pthread_mutex_lock(&pool->lock);
        pool->heap_set.budget.n_empty_max = n_cache_bytes;
        begin_triggers(pool);
        if (n_cache_bytes != UINT64_MAX) {
                recall_idle(pool);
                retained_take_revoked(pool, RETAINED_DROP_FREELY, &list);
        }
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
}

static bool begin_record(struct stream_heap *heap)
{
        bool due;

        spin_lock(&heap_in(heap)->lock);
        due = scan_trigger_begin_record(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        return due;
}

/* The caller has the lock. */
static bool record(struct stream_heap *heap, uint64_t generation, void *const *own_stream)
{
        struct pool *pool = heap->pool;

        if (!idle_marking_is_on(pool) || !empty_blocks_is_still(heap, generation))
                return false;
        heap_set_see(&pool->heap_set, pool_now_us(pool));
        if (!begin_record(heap))
                return false;
        if (own_stream && empty_blocks_is_fenced(heap))
                fences_record(&heap->fences, heap_in(heap), pool->streams, &heap->key, *own_stream);
        spin_lock(&heap_in(heap)->lock);
        scan_trigger_raise(&heap->trigger, &pool->heap_set, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        return true;
}

/* Usually a later free tries again, so this does not wait for the lock. After a large fall, or when a block became
 * empty, there may be no later free, and no other thread can make the record, so this waits. Such records are counted:
 * a few for falls between two looks, and for empty blocks as many as are granted. */
static bool take_lock(struct stream_heap *heap)
{
        struct pool *pool = heap->pool;
        bool is_pressing;

        if (pthread_mutex_trylock(&pool->lock) == 0)
                return true;
        spin_lock(&heap_in(heap)->lock);
        is_pressing = scan_trigger_is_pressing(&heap->trigger, heap_in(heap));
        if (!is_pressing)
                scan_trigger_postpone(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        if (is_pressing)
                pthread_mutex_lock(&pool->lock);
        return is_pressing;
}

void idle_marking_note(struct stream_heap *heap, uint64_t generation, void *const *own_stream)
{
        struct pool *pool = heap->pool;
        bool recorded, is_seen_to;

        if (!take_lock(heap))
                return;
        recorded = record(heap, generation, own_stream);
        pthread_mutex_unlock(&pool->lock);
        is_seen_to = recorded ? service_thread_wake(pool->service)
                              : service_thread_is_allowed(pool->service);
        /* Work that was recorded earlier may be over by now, and no service thread notices. */
        if (!is_seen_to)
                (void)idle_marking_look(pool, IDLE_MARKING_WHEN_DUE);
}

/* Are there frees that no record covers? The caller has the lock. */
static bool owes(struct stream_heap *heap)
{
        bool owed;

        spin_lock(&heap_in(heap)->lock);
        owed = scan_trigger_is_owed(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        return owed && empty_blocks_is_fenced(heap);
}

/* May any thread record in its stream? With GPUMEM_FENCE=context a record ends each capture of the context, so only
 * calls that name the stream make one. */
static bool is_known(const struct stream_heap *heap)
{
        return heap->pool->streams->way != FENCE_CONTEXT &&
               (heap->is_legacy || streams_cover(heap->pool->streams, &heap->key));
}

/* The caller has the lock. */
static void record_owed(struct stream_heap *heap)
{
        struct streams *streams = heap->pool->streams;

        if (heap->is_legacy)
                fences_record(&heap->fences, heap_in(heap), streams, &heap->key, CU_STREAM_LEGACY);
        else
                fences_record_round(&heap->fences, heap_in(heap), streams, &heap->key);
        spin_lock(&heap_in(heap)->lock);
        scan_trigger_note_record(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
}

/* The caller has the lock. */
static void set_owing(struct pool *pool, bool is_owing)
{
        if (is_owing && !pool->is_owing)
                after_call_add(pool->streams->after_call, 1);
        if (!is_owing && pool->is_owing)
                after_call_sub(pool->streams->after_call, 1);
        atomic_store(&pool->is_owing, is_owing);
}

/* With a cache size nothing is owed, and what was freed while a capture was announced is recorded whatever it is. The
 * caller has the lock. */
static bool is_to_record(struct stream_heap *heap)
{
        return idle_marking_is_on(heap->pool) ? owes(heap) : empty_blocks_is_fenced(heap);
}

/* What cannot be recorded now is owed again after the next grant. */
void idle_marking_catch_up(struct pool *pool, bool waits)
{
        struct stream_heap *heap, *next;

        if (waits)
                pthread_mutex_lock(&pool->lock);
        else if (pthread_mutex_trylock(&pool->lock))
                return;
        set_owing(pool, false);
        pool->next_grant_us = clock_now_us() + SCAN_TRIGGER_GRANT_US;
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (is_to_record(heap) && is_known(heap))
                        record_owed(heap);
        }
        pthread_mutex_unlock(&pool->lock);
        (void)service_thread_wake(pool->service);
}

/* The caller has the lock. */
static bool is_owed(struct pool *pool)
{
        struct stream_heap *heap, *next;
        bool is_any = false;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                is_any = is_any || owes(heap);
        }
        return is_any;
}

/* The caller has the lock. */
static void lower_thresholds(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                scan_trigger_lower(&heap->trigger);
                spin_unlock(&heap_in(heap)->lock);
        }
}

/* The caller has the lock. */
static void grant_records(struct pool *pool)
{
        uint32_t n_heaps = pool->heap_set.n_heaps, n_records = scan_trigger_share(n_heaps);
        bool is_short = heap_set_is_short(&pool->heap_set, clock_now_us());
        struct stream_heap *heap, *next;

        pool->n_first_records = SCAN_TRIGGER_SMALL_ALL;
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                scan_trigger_grant(&heap->trigger, n_records, n_heaps);
                if (!is_short)
                        scan_trigger_end_short(&heap->trigger);
                spin_unlock(&heap_in(heap)->lock);
        }
}

/* The caller has the lock. */
static bool are_all_granted(struct pool *pool)
{
        struct stream_heap *heap, *next;
        bool are_granted = true;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                are_granted = are_granted && scan_trigger_is_granted(&heap->trigger);
                spin_unlock(&heap_in(heap)->lock);
        }
        return are_granted;
}

/* Is there something to do at the next grant? The caller has the lock. */
static bool waits_for_grant(struct pool *pool)
{
        return !are_all_granted(pool) || (!pool->is_owing && is_owed(pool));
}

/* The caller has the lock. */
static bool is_pending(const struct pool *pool)
{
        const struct stream_heap *heap;
        bool pending = false;

        for (heap = pool->heaps; heap; heap = heap->hh.next)
                pending = pending || fences_wait_for(&heap->fences);
        return pending;
}

/* The caller has the lock. */
static int ms_until_next(struct pool *pool)
{
        uint64_t at_us = retained_next_us(pool), now_us = clock_now_us();

        if (waits_for_grant(pool) && pool->next_grant_us < at_us)
                at_us = pool->next_grant_us;
        if (at_us == UINT64_MAX)
                return -1;
        return at_us > now_us ? (int)((at_us - now_us) / 1000) + SERVICE_THREAD_SOON_MS + 1
                              : SERVICE_THREAD_SOON_MS;
}

/* A waiting thread may need what was freed last, and there may be no later free to look. The caller has the lock. */
static bool is_time(struct pool *pool, enum idle_marking_urgency urgency)
{
        return urgency != IDLE_MARKING_WHEN_DUE || pool->n_waiting ||
               heap_set_begin_look(&pool->heap_set, clock_now_us());
}

/* Returns whether more may be marked soon. The caller has the lock. */
static bool mark(struct pool *pool, enum idle_marking_urgency urgency, uint64_t now_us)
{
        struct heap_set *set = &pool->heap_set;
        bool more;

        if (urgency == IDLE_MARKING_URGENT) {
                idle_patience_end(&set->patience);
                (void)heap_set_settle(set);
        }
        if (!pool->n_waiting && !idle_patience_is_over(&set->patience, now_us))
                return true;
        more = heap_set_put_idle(set, now_us);
        idle_patience_mark(&set->patience, now_us);
        return heap_set_settle(set) || more || is_pending(pool);
}

/* The caller has the lock. */
static int look(struct pool *pool, enum idle_marking_urgency urgency, struct leased_list *list)
{
        uint64_t now_us = clock_now_us();
        bool more;

        empty_blocks_poll(pool);
        more = mark(pool, urgency, now_us);
        lower_thresholds(pool);
        if (now_us >= pool->next_grant_us) {
                grant_records(pool);
                set_owing(pool, is_owed(pool));
                pool->next_grant_us = now_us + SCAN_TRIGGER_GRANT_US;
        }
        /* Opened blocks are not closed when others want them, so a thread of this process that waits must not wait
         * for its own. */
        if (pool->memory.is_ipc && pool->n_waiting)
                empty_blocks_take_all(pool, list);
        else
                retained_take_revoked(pool, RETAINED_DROP_EXCESS, list);
        return more ? SERVICE_THREAD_SOON_MS : ms_until_next(pool);
}

/* With a cache size a graph's memory is empty, and its heap may end, without a free that looks. The next look ends the
 * heaps that have no block now. The caller has the lock. */
static int look_bounded(struct pool *pool, struct leased_list *list)
{
        int again_ms;

        empty_blocks_take_excess(pool, list);
        again_ms = LIST_EMPTY(list) ? -1 : SERVICE_THREAD_SOON_MS;
        retained_take_revoked(pool, RETAINED_DROP_FREELY, list);
        return again_ms;
}

/* The cache size may have changed since the caller asked whether there is one. */
int idle_marking_look(struct pool *pool, enum idle_marking_urgency urgency)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        int again_ms = SERVICE_THREAD_SOON_MS;

        pthread_mutex_lock(&pool->lock);
        if (!idle_marking_is_on(pool))
                again_ms = look_bounded(pool, &list);
        else if (is_time(pool, urgency))
                again_ms = look(pool, urgency, &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        return again_ms;
}
