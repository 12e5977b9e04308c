/* One pool as a client has it: an arena of addresses, leased blocks mapped there, and a heap for
 * each stream that allocates. Any thread; driver calls and messages are made without the lock. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/arena.h"
#include "client/bind.h"
#include "client/limit.h"
#include "client/memory.h"
#include "driver/stream.h"
#include "proto/board.h"

struct shared;
struct stream_heap;
LIST_HEAD(shared_list, shared);

struct pool {
        struct pool_row row;
        struct memory memory; /* a device that this process does not see has ordinal -1 */
        struct uplink *uplink;
        pthread_mutex_t declare_lock;       /* one HELD at a time; taken before `lock` */
        pthread_mutex_t lock;               /* guards what follows, the counters, and row.id */
        struct binding binding;             /* to the daemon */
        struct board_counters *counters;    /* on the board, or own_counters */
        struct board_counters own_counters; /* while there is no board for them */
        struct arena *arena;                /* NULL until the first block */
        uint64_t arena_start;
        uint64_t n_arena_bytes;
        struct stream_heap *heaps; /* hash table; a heap lives while it has blocks */
        uint64_t n_reserved_bytes;
        uint64_t n_reserved_peak_bytes;
        uint64_t n_blocks;
        struct shared_list shareds; /* allocations and attached memory with blocks of their own */
        struct own_limit limit;
        pthread_mutex_t registering; /* registration.c: one block at a time */
};

/* A block that has become empty, as it was when its last allocation was freed. */
struct emptied {
        uint64_t address; /* 0: none */
        uint64_t lease;
        uint64_t n_uses;
};

/* Not met yet. Not to be moved afterwards. */
void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct uplink *uplink);

/* Unmaps and returns every block, empty or not. GPU work on them is over. */
void pool_deinit(struct pool *pool);

/* As gpumem_request numbers places. */
int32_t pool_place(const struct pool *pool);

/* Memory in `key`'s order; see gpumem_alloc. */
int pool_alloc(struct pool *pool, const struct stream_key *key, uint64_t n_bytes, uint32_t wait_ms,
               void **ret_pointer);

/* Whose order the allocation at `pointer` is in. One that was made without a context and registered
 * later may be in the hands of any stream: it has the context of the registration, and an id that is
 * no stream's. GPUMEM_E_NOT_OURS. */
#define POOL_ANY_STREAM UINT64_MAX
int pool_find(struct pool *pool, const void *pointer, struct stream_key *ret_key);

/* What an allocation is, from any address in it; struct_size is left alone. GPUMEM_E_NOT_OURS. */
int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info);

void pool_reset_peaks(struct pool *pool);

/* Ends an allocation whose last use is ordered before later work of its stream. */
int pool_free(struct pool *pool, const void *pointer, struct emptied *ret_emptied);

/* An allocation with a block of its own comes or goes; the caller has the lock. `n_requested_bytes`
 * is what it was asked with. */
void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);
void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes);

/* Gives an emptied block back, after the work of its stream up to pool_free is over. One that has
 * been used since stays. */
void pool_retire(struct pool *pool, const struct emptied *emptied);
