/* One pool as a client has it: an arena of addresses, leased blocks mapped there, and a heap for
 * each stream that allocates. Any thread; driver calls and messages are made without locks, but for
 * events, which wait for nothing: they are recorded and asked under the pool's.
 *
 * Two kinds of locks: the pool's, for all that changes with blocks, and each heap's own, for the
 * heap alone, which is all that a hit and a free take. The pool's is taken first. What the lock-free
 * way to a heap may still come upon, records of blocks and heaps, is kept until the pool ends and
 * used again for others; under the heap's lock it shows whether it is the right one. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/arena.h"
#include "client/bind.h"
#include "client/fences.h"
#include "client/kept.h"
#include "client/lanes.h"
#include "client/limit.h"
#include "client/looks.h"
#include "client/memory.h"
#include "client/peers.h"
#include "client/space.h"
#include "driver/stream.h"

struct service;
struct shared;
LIST_HEAD(shared_list, shared);

/* Whose heap it is now. Written under the heap's lock, and read without. */
struct heap_mark {
        _Atomic uint64_t scope;
        _Atomic uint64_t id;
};

/* A stream's. Threads that allocate at once write to no line, nor to the next one, which processors
 * fetch with it, that another thread needs. */
struct stream_heap {
        _Alignas(128) struct space_heap in_space; /* the heap; its lock guards the next five */
        struct heap_mark mark;
        uint64_t generation; /* another for each stream whose heap the record is */
        bool live;
        struct looks looks;
        uint64_t n_flush_epochs; /* what a flush under way waits for */
        struct lane *lane;
        struct pool *pool;
        struct stream_key key; /* context 0: made without one; with a capture it is the capture's */
        struct fences fences;  /* guarded by the pool's lock */
        UT_hash_handle hh;
};

/* As they were reserved. */
struct pool_addresses {
        uint64_t start;
        uint64_t n_bytes;
};

struct pool {
        struct pool_row row;
        struct memory memory; /* a device that this process does not see has ordinal -1 */
        struct peers peers;
        struct uplink *uplink;
        struct service *service;
        struct streams *streams;
        pthread_mutex_t declare_lock; /* one HELD at a time; taken before `lock` */
        pthread_mutex_t lock;         /* guards what follows, but the lanes, and row.id */
        struct binding binding;       /* to the daemon */
        struct lanes lanes;
        _Atomic(struct arena *) arena; /* NULL until the first block; then for good */
        uint64_t arena_start;
        uint64_t n_arena_bytes;      /* with `more` */
        struct pool_addresses *more; /* of an arena that was short at first */
        unsigned n_more;
        struct space space;
        struct kept kept;
        uint64_t n_away_us;        /* that leases and returns took */
        unsigned n_waiting;        /* requests that may wait for others' memory */
        struct stream_heap *heaps; /* hash table */
        struct stream_heap *spare_heaps;
        struct leased_list spare_leased;
        struct leased_list stuck_leased; /* that could not be unmapped, see leased_free */
        uint64_t n_reserved_bytes;       /* in heaps and shared */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_blocks;
        struct shared_list shareds; /* allocations and attached memory with blocks of their own */
        struct own_limit limit;
        pthread_mutex_t flushing;    /* idle.c: one flush at a time; taken before `lock` */
        pthread_mutex_t registering; /* registration.c: one block at a time */
};

/* Not met yet. Not to be moved afterwards. n_cache_bytes: of empty blocks at most. */
void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct uplink *uplink, struct service *service, struct streams *streams,
               uint64_t n_cache_bytes);

/* Pinned memory has one registration a block, and a copy must not need two; what is opened is an
 * allocation of the driver's for each block, at an address that it chose. */
enum heap_runs pool_runs(const struct pool *pool);

/* Unmaps and returns every block, empty or not. GPU work on them is over. */
void pool_deinit(struct pool *pool);

/* As gpumem_request numbers places. */
int32_t pool_place(const struct pool *pool);

/* Counts on another board from now on; NULL: on none. */
void pool_move_board(struct pool *pool, struct board_pool *board);

/* A hit, from a heap that may be another stream's by now. GPUMEM_E_REFUSED: it is, or no hole holds
 * n_bytes. */
int pool_hit(struct stream_heap *heap, const struct stream_mark *mark, uint64_t n_bytes,
             void **ret_pointer);

/* Who asks for memory, and how. */
struct pool_request {
        struct stream_key key;
        struct stream_mark mark;
        void *stream; /* alive during the call */
        uint64_t n_bytes;
        uint32_t wait_ms;
};

/* GPUMEM_E_TOO_LARGE, with what the caller's thread hears of it: the whole pool has not so much. */
int pool_check_size(const struct pool *pool, uint64_t n_bytes);

/* Memory in the stream's order, whose heap is `*ret_heap`; see gpumem_alloc. */
int pool_alloc(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap,
               void **ret_pointer);

/* Ends a heap without blocks; the caller has the lock. */
void pool_retire_heap(struct pool *pool, struct stream_heap *heap);

/* Who asks has that heap, or NULL. */
struct stream_heap *pool_find_heap(struct pool *pool, const struct pool_request *request);

/* The caller has the heap's lock. */
void pool_set_mark(struct stream_heap *heap, const struct stream_mark *mark);

/* The stream with that mark has the heap, or had it when this was called. */
static inline bool pool_has_mark(const struct stream_heap *heap, const struct stream_mark *mark)
{
        return atomic_load_explicit(&heap->mark.scope, memory_order_acquire) == mark->scope &&
               atomic_load_explicit(&heap->mark.id, memory_order_acquire) == mark->id &&
               atomic_load_explicit(&heap->mark.scope, memory_order_relaxed) == mark->scope;
}

/* The block that a pointer lies in; NULL: none of this pool's. It says nothing about whether anything is
 * allocated there. */
struct heap_block *pool_block_of(const struct pool *pool, const void *pointer);

/* The heap that the block is in; NULL: it is one allocation, or on the shelf. */
struct stream_heap *pool_heap_of_block(const struct pool *pool, const struct heap_block *block);

/* The heap that a pointer's block is in, or NULL. */
struct stream_heap *pool_heap_of(const struct pool *pool, const void *pointer);

/* In whose order the allocation at `pointer` in that heap is. One that was made without a context and
 * registered later may be in the hands of any stream: it has the context of the registration, and an
 * id that is no stream's. */
#define POOL_ANY_STREAM UINT64_MAX
struct stream_key pool_order_of(const struct stream_heap *heap, const void *pointer);

/* An allocation starts there, in a heap of this pool. GPUMEM_E_NOT_OURS. */
int pool_find(struct pool *pool, const void *pointer);

/* What an allocation is, from any address in it; struct_size is left alone. GPUMEM_E_NOT_OURS. */
int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info);

/* Ends an allocation whose last use is ordered before later work of its stream, or is over. POOL_LOOK:
 * it is time for idle_look. GPUMEM_E_NOT_OURS. */
#define POOL_LOOK 1000
enum pool_use { POOL_USE_ORDERED, POOL_USE_OVER };
int pool_give(struct stream_heap *heap, const void *pointer, enum pool_use use);

void pool_reset_peaks(struct pool *pool);

/* An allocation with a block of its own comes or goes; the caller has the lock. `n_requested_bytes`
 * is what it was asked with. */
void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);
void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);

/* Blocks come or go; the caller has the lock. */
void pool_count_block(struct pool *pool, uint64_t n_bytes);
void pool_discount_block(struct pool *pool, uint64_t n_bytes);

/* The stream's heap, made if need be; the caller has the lock. -ENOMEM. */
int pool_heap(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap);

/* Cuts and counts. As heap_alloc. */
NOINLINE int pool_cut(struct stream_heap *heap, uint64_t n_bytes, enum lane_event event,
                      void **ret_pointer);

/* Its blocks stay where they are as long as its graphs, whatever is known of any work. */
static inline bool pool_is_captured(const struct stream_heap *heap)
{
        return heap->key.capture != 0;
}

static inline struct heap *heap_in(struct stream_heap *heap)
{
        return &heap->in_space.heap;
}
