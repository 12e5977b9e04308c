/* SPDX-License-Identifier: Apache-2.0 */
/* One pool as a client has it: an arena of addresses, leased blocks that are mapped there, and a heap for each stream
 * that allocates. This header has only the state, for all modules that work on it: blocks and their leases, heaps,
 * captures, the public functions.
 *
 * Any thread. Driver calls and messages are made without locks, except for events: recording and querying them does
 * not wait, and is done under the pool's lock. There are two kinds of locks: the pool's, for all that changes with
 * blocks, and each heap's own, for that heap alone. A hit and a free take only the heap's. The pool's is taken first.
 * The lock-free way to a heap may meet records of blocks and heaps that have ended: they are kept until the pool
 * ends, and are reused. Under the heap's lock a thread can tell whether it has the right one. */
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
#include "client/reserve/scan_trigger.h"
#include "client/streams/fences.h"
#include "driver/stream.h"
#include "proto/messages.h"

struct connection;
struct service_thread;
struct shared_alloc;
struct reconnector;

LIST_HEAD(shared_list, shared_alloc);

/* The stream whose heap it is now. Written under the heap's lock, and read without. */
struct heap_mark {
        _Atomic uint64_t scope;
        _Atomic uint64_t id;
};

/* The heap of a stream. What a hit reads is in one line, what a free reads besides in the next, and the heap's own
 * fields follow. The alignment keeps the heaps of threads that allocate at the same time in cache lines of their own,
 * with a line between them: processors fetch the next line, too. */
struct stream_heap {
        _Alignas(128) struct heap_mark mark; /* the heap's lock guards the mark, and what says so */
        struct pool *pool;
        struct stream_key key; /* context 0: made without one; capture not 0: the capture's heap */
        bool is_legacy;        /* its stream is the context's default stream */
        bool live;             /* under the lock, as the next three */
        _Alignas(64) uint64_t generation; /* changes for each stream that gets the record */
        struct scan_trigger trigger;
        uint64_t n_flush_epochs; /* the epochs that a pending flush waits for */
        _Alignas(128) struct set_heap in_set;
        struct fences fences; /* guarded by the pool's lock */
        UT_hash_handle hh;
};

/* A block, from the reservation of its addresses to its end; then the record is kept for other blocks. */
struct leased {
        struct heap_block block; /* its addresses, and its heap; no heap: it is one allocation */
        uint64_t number;         /* the daemon's number of the block */
        uint64_t connection;     /* serial of the one that it was leased on */
        enum mapping mapping;
        struct shared_alloc *shared; /* the allocation, if the block is one */
        bool is_mapped;              /* by mapping_map; changed only under the pool's peer_access */
        uint64_t handle;             /* or an address, that the driver failed to release; 0: none */
        bool is_attached;            /* another client allocated it */
        bool is_unused;              /* leased, and in no heap yet; the daemon knows such returns */
        bool is_revoked;             /* the lease is over, the mapping not yet */
        uint64_t retained_at_us;     /* see retained.h; 0: it is not */
        _Atomic uint64_t context;    /* where it was registered or opened; else 0 */
        _Atomic uint64_t context_id; /* of a registration; see host_register_id */
        unsigned n_opens;            /* of MAPPING_IPC; before the open its address is 0 */
        LIST_ENTRY(leased) link;     /* in the list of spare records, or of blocks to be returned */
};

LIST_HEAD(leased_list, leased);

/* Blocks whose leases were revoked, and that are still mapped: see retained.h. */
struct retained {
        struct leased_list blocks; /* newest first */
        _Atomic bool is_recalled;  /* a NOTICE has come; set without the lock */
};

/* The pool's binding to the present connection; guarded by the pool's lock. */
struct binding {
        uint64_t connection;     /* its serial; 0: the pool is being detached */
        _Atomic bool is_missing; /* read without the lock too */
        uint64_t n_leased_bytes; /* on that connection: mapped, or about to be */
        uint64_t n_held_bytes;   /* on earlier ones: mapped */
};

/* How much of the pool the process leases at most: see client_limit.h. */
struct client_limit {
        uint64_t n_max_bytes;
        uint64_t n_leased_bytes; /* leased or requested */
};

#define CLIENT_LIMIT_NULL ((struct client_limit){.n_max_bytes = UINT64_MAX})

/* One range, as it was reserved. */
struct pool_addresses {
        uint64_t start;
        uint64_t n_bytes;
};

struct pool {
        _Atomic(struct arena *) arena; /* NULL until the first block; never changes afterwards */
        struct memory memory;          /* a device that this process does not see has ordinal -1 */
        struct pool_row row;
        struct peer_access peer_access;
        struct reconnector *reconnector;
        struct service_thread *service;
        struct streams *streams;
        pthread_mutex_t declare_lock; /* one HELD at a time; taken before `lock` */
        pthread_mutex_t lock;         /* guards what follows, but the counters, and row.id */
        struct binding binding;       /* to the daemon */
        struct counters counters;
        uint64_t arena_start;
        uint64_t n_arena_bytes;      /* with `more` */
        struct pool_addresses *more; /* further ranges of an arena that was short at first */
        unsigned n_more;
        struct heap_set heap_set;
        struct retained retained;
        unsigned n_blockers;       /* threads that lease or return blocks now */
        uint64_t blocked_at_us;    /* when the first of them began */
        uint64_t n_blocked_us;     /* time that leases and returns took, without theirs */
        unsigned n_waiting;        /* requests that may wait for others' memory */
        uint64_t next_grant_us;    /* when heaps may make small records again; see scan_trigger.h */
        uint32_t n_first_records;  /* are left for new heaps until then */
        _Atomic bool is_owing;     /* see idle_marking_catch_up; read without the lock, too */
        struct stream_heap *heaps; /* hash table */
        unsigned n_heaps_many;     /* from so many on those without blocks are retired */
        struct stream_heap *spare_heaps;
        struct leased_list spare_leased;
        struct leased_list stuck_leased; /* blocks that could not be unmapped, see leased_free */
        uint64_t n_reserved_bytes;       /* in heaps and in `shareds` */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_blocks;
        struct shared_list shareds;  /* memory with blocks of its own */
        uint64_t n_alone;            /* allocations with blocks of their own; not attached ones */
        uint64_t n_alone_rest_bytes; /* of those blocks what no allocation can have */
        struct client_limit limit;
        pthread_mutex_t flushing;    /* empty_blocks.c: one flush at a time; taken before `lock` */
        pthread_mutex_t registering; /* leased_register: one block at a time */
        pthread_mutex_t reserving;   /* reservation.c: one at a time; taken before `lock` */
};

/* Pinned memory has one registration for each block, and a copy must lie in one of them. Memory of CUDA IPC handles
 * is an allocation of the driver for each block, at an address that the driver chose. */
enum heap_runs pool_runs(const struct pool *pool);

/* The pool's place, numbered as in gpumem_request. */
int32_t pool_place(const struct pool *pool);

static inline uint64_t leased_bytes(const struct leased *leased)
{
        return leased->block.at.n_bytes;
}

static inline uint64_t leased_address(const struct leased *leased)
{
        return leased->block.at.start;
}

/* The bytes that count as leased while the block is mapped. The client that leased an attached block counts it. */
static inline uint64_t leased_counted_bytes(const struct leased *leased)
{
        return leased->is_attached ? 0 : leased_bytes(leased);
}

static inline struct leased *leased_of(struct arena_block *at)
{
        return at ? CONTAINER_OF(at, struct leased, block.at) : NULL;
}

/* Is it a capture's heap? Its blocks stay in place as long as the capture's graphs, whatever work is known to be
 * over. */
static inline bool pool_is_captured(const struct stream_heap *heap)
{
        return heap->key.capture != 0;
}

static inline struct heap *heap_in(struct stream_heap *heap)
{
        return &heap->in_set.heap;
}

/* Has the stream with that mark the heap? True also if it had it when this was called. */
static ALWAYS_INLINE bool pool_has_mark(const struct stream_heap *heap,
                                        const struct stream_mark *mark)
{
        return atomic_load_explicit(&heap->mark.scope, memory_order_acquire) == mark->scope &&
               atomic_load_explicit(&heap->mark.id, memory_order_acquire) == mark->id &&
               atomic_load_explicit(&heap->mark.scope, memory_order_relaxed) == mark->scope;
}

/* Fetches the lines that an allocation of n_bytes in the heap is going to use, all at once. */
static ALWAYS_INLINE void pool_prefetch(const struct stream_heap *heap, uint64_t n_bytes)
{
        __builtin_prefetch(heap);
        heap_prefetch_alloc(&heap->in_set.heap, n_bytes);
}

/* The order of an allocation that was made without a context and registered later: an id that no stream has. */
#define POOL_ANY_STREAM UINT64_MAX

/* An allocation with a block of its own is made or ends; the caller has the lock. `n_requested_bytes` is the size
 * that was requested. */
void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);
void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);

/* A block is added or removed; the caller has the lock. */
void pool_count_block(struct pool *pool, uint64_t n_bytes);
void pool_discount_block(struct pool *pool, uint64_t n_bytes);

/* The pool's clock, which stops while blocks are leased and returned. The caller has the lock. */
uint64_t pool_now_us(const struct pool *pool);

/* A thread leases or returns blocks from now on, until it starts the clock again. The clock stands as long as any
 * thread does so. Both take the lock. */
void pool_stop_clock(struct pool *pool);
void pool_start_clock(struct pool *pool);
