/* SPDX-License-Identifier: Apache-2.0 */
/* One pool as a client has it: an arena of addresses, leased blocks mapped there, and a heap for
 * each stream that allocates. What is here is the state alone, for all that work on it: blocks and their leases,
 * heaps, captures, the public functions.
 *
 * Any thread; driver calls and messages are made without locks, but for events, which wait for nothing: they are
 * recorded and asked under the pool's. Two kinds of locks: the pool's, for all that changes with blocks, and each
 * heap's own, for the heap alone, which is all that a hit and a free take. The pool's is taken first. What the
 * lock-free way to a heap may still come upon, records of blocks and heaps, is kept until the pool ends and
 * used again for others; under the heap's lock it shows whether it is the right one. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/blocks/counters.h"
#include "client/mapping/mapping.h"
#include "client/mapping/peer_access.h"
#include "client/reserve/heap_set.h"
#include "client/reserve/trim_trigger.h"
#include "client/streams/fences.h"
#include "driver/stream.h"
#include "proto/proto.h"

struct connection;
struct service_thread;
struct shared_alloc;
struct reconnector;

LIST_HEAD(shared_list, shared_alloc);

/* Whose heap it is now. Written under the heap's lock, and read without. */
struct heap_mark {
        _Atomic uint64_t scope;
        _Atomic uint64_t id;
};

/* A stream's. Threads that allocate at once write to no line, nor to the next one, which processors
 * fetch with it, that another thread needs. */
struct stream_heap {
        _Alignas(128) struct set_heap in_set; /* the heap; its lock guards the next five */
        struct heap_mark mark;
        uint64_t generation; /* another for each stream whose heap the record is */
        bool live;
        struct trim_trigger trigger;
        uint64_t n_flush_epochs; /* what a flush under way waits for */
        struct counter *counter;
        struct pool *pool;
        struct stream_key key; /* context 0: made without one; with a capture it is the capture's */
        struct fences fences;  /* guarded by the pool's lock */
        UT_hash_handle hh;
};

/* A block, from its addresses to its end; kept for others after that. */
struct leased {
        struct heap_block block; /* its place, and its heap; none: it is one allocation */
        uint64_t number;         /* as the daemon names the block */
        uint64_t connection;     /* serial of the one that it was leased on */
        enum mapping mapping;
        struct shared_alloc *shared; /* that allocation */
        bool is_mapped;              /* by mapping_map; the pool's peers are held to change it */
        uint64_t handle;             /* or address, that the driver would not take back; 0: none */
        bool is_attached;            /* another client's lease came first */
        bool is_revoked;             /* the lease is over, the mapping not yet */
        uint64_t retained_at_us;     /* see retained.h; 0: it is not */
        _Atomic uint64_t context;    /* of MAPPING_REGISTERED and _OPENED: where that was done */
        unsigned n_opens;        /* of MAPPING_IPC; before that it has no place, and address 0 */
        LIST_ENTRY(leased) link; /* of those that are spare, or about to be given back */
};

LIST_HEAD(leased_list, leased);

/* Blocks whose leases were revoked, and that are mapped still: see retained.h. */
struct retained {
        struct leased_list blocks; /* the one that was kept last is first */
        _Atomic bool is_recalled;  /* a NOTICE has come; set without the lock */
};

/* A pool's standing with the daemon; guarded by the pool's lock. */
struct binding {
        uint64_t connection; /* serial of the one that it is attached to; 0: it is being detached */
        _Atomic bool is_missing; /* read without the lock too */
        uint64_t n_leased_bytes; /* of that connection: mapped, or about to be */
        uint64_t n_held_bytes;   /* of earlier ones: mapped */
};

/* How much of the pool the process leases at most: see client_limit.h. */
struct client_limit {
        uint64_t n_max_bytes;
        uint64_t n_leased_bytes; /* and asked for */
};

#define CLIENT_LIMIT_NULL ((struct client_limit){.n_max_bytes = UINT64_MAX})

/* As they were reserved. */
struct pool_addresses {
        uint64_t start;
        uint64_t n_bytes;
};

struct pool {
        struct pool_row row;
        struct memory memory; /* a device that this process does not see has ordinal -1 */
        struct peer_access peer_access;
        struct reconnector *reconnector;
        struct service_thread *service;
        struct streams *streams;
        pthread_mutex_t declare_lock; /* one HELD at a time; taken before `lock` */
        pthread_mutex_t lock;         /* guards what follows, but the counters, and row.id */
        struct binding binding;       /* to the daemon */
        struct counters counters;
        _Atomic(struct arena *) arena; /* NULL until the first block; then for good */
        uint64_t arena_start;
        uint64_t n_arena_bytes;      /* with `more` */
        struct pool_addresses *more; /* of an arena that was short at first */
        unsigned n_more;
        struct heap_set heap_set;
        struct retained retained;
        uint64_t n_blocked_us;     /* that leases and returns took */
        unsigned n_waiting;        /* requests that may wait for others' memory */
        struct stream_heap *heaps; /* hash table */
        struct stream_heap *spare_heaps;
        struct leased_list spare_leased;
        struct leased_list stuck_leased; /* that could not be unmapped, see leased_free */
        uint64_t n_reserved_bytes;       /* in heaps and shared */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_blocks;
        struct shared_list shareds; /* allocations and attached memory with blocks of their own */
        struct client_limit limit;
        pthread_mutex_t flushing;    /* trim.c: one flush at a time; taken before `lock` */
        pthread_mutex_t registering; /* leased_register: one block at a time */
        pthread_mutex_t reserving;   /* reservation.c: one at a time; taken before `lock` */
};

/* Pinned memory has one registration a block, and a copy must not need two; what is opened is an
 * allocation of the driver's for each block, at an address that it chose. */
enum heap_runs pool_runs(const struct pool *pool);

/* As gpumem_request numbers places. */
int32_t pool_place(const struct pool *pool);

static inline uint64_t leased_bytes(const struct leased *leased)
{
        return leased->block.at.n_bytes;
}

static inline uint64_t leased_address(const struct leased *leased)
{
        return leased->block.at.start;
}

/* What counts as leased while it is mapped: what was attached is counted by those who leased it. */
static inline uint64_t leased_counted_bytes(const struct leased *leased)
{
        return leased->is_attached ? 0 : leased_bytes(leased);
}

static inline struct leased *leased_of(struct arena_block *at)
{
        return at ? CONTAINER_OF(at, struct leased, block.at) : NULL;
}

/* Its blocks stay where they are as long as its graphs, whatever is known of any work. */
static inline bool pool_is_captured(const struct stream_heap *heap)
{
        return heap->key.capture != 0;
}

static inline struct heap *heap_in(struct stream_heap *heap)
{
        return &heap->in_set.heap;
}

/* The stream with that mark has the heap, or had it when this was called. */
static inline bool pool_has_mark(const struct stream_heap *heap, const struct stream_mark *mark)
{
        return atomic_load_explicit(&heap->mark.scope, memory_order_acquire) == mark->scope &&
               atomic_load_explicit(&heap->mark.id, memory_order_acquire) == mark->id &&
               atomic_load_explicit(&heap->mark.scope, memory_order_relaxed) == mark->scope;
}

/* In whose order an allocation may be that was made without a context and registered later: an id that is no
 * stream's. */
#define POOL_ANY_STREAM UINT64_MAX

/* An allocation with a block of its own comes or goes; the caller has the lock. `n_requested_bytes`
 * is what it was asked with. */
void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);
void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);

/* Blocks come or go; the caller has the lock. */
void pool_count_block(struct pool *pool, uint64_t n_bytes);
void pool_discount_block(struct pool *pool, uint64_t n_bytes);

/* The pool's clock: it stands while blocks are leased and returned. The caller has the lock. */
uint64_t pool_now_us(const struct pool *pool);

/* Stops the pool's clock for what has begun at that time of the system's and ends now. */
void pool_stop_clock(struct pool *pool, uint64_t since_us);
