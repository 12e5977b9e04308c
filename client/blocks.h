/* Blocks between the daemon and the arena: addresses reserved, leased, mapped; unmapped, returned. Any
 * thread; the pool's lock is not held during driver calls and messages. */
#pragma once

#include "base/err.h"
#include "client/pool.h"

/* A block, from its addresses to its end; kept for others after that. */
struct leased {
        struct heap_block block; /* its place, and its heap; none: it is one allocation */
        uint64_t number;         /* as the daemon names the block */
        uint64_t connection;     /* serial of the one that it was leased on */
        enum mapping mapping;
        struct shared *shared;    /* that allocation */
        bool is_mapped;           /* by memory_map; the pool's peers are held to change it */
        uint64_t handle;          /* or address, that the driver would not take back; 0: none */
        bool is_attached;         /* another client's lease came first */
        bool is_revoked;          /* the lease is over, the mapping not yet */
        uint64_t kept_at_us;      /* see kept.h; 0: it is not */
        _Atomic uint64_t context; /* of MAPPING_REGISTERED and _OPENED: where that was done */
        unsigned n_opens;        /* of MAPPING_OPENED; before that it has no place, and address 0 */
        LIST_ENTRY(leased) link; /* of those that are spare, or about to be given back */
};

static inline uint64_t leased_bytes(const struct leased *leased)
{
        return leased->block.at.n_bytes;
}

static inline uint64_t leased_address(const struct leased *leased)
{
        return leased->block.at.start;
}

static inline struct leased *leased_of(struct arena_block *at)
{
        return at ? CONTAINER_OF(at, struct leased, block.at) : NULL;
}

/* The pool has an arena from now on. Where the system has few addresses then, the arena is short: blocks_widen gives
 * it more at a later allocation that finds no place. Where there are none, that allocation fails, and the next one
 * tries again. The caller has the lock. */
int blocks_open(struct pool *pool);

/* A request of so many bytes found no place in the arena. True: there are more addresses now, as many as it takes and
 * as a pool has; the first ones stay where they are, since blocks stand there. False: there are no more to be had, or
 * the pool has all that it is to have. The caller has the lock. */
bool blocks_widen(struct pool *pool, uint64_t n_bytes);

/* Gives the addresses up; no block stands there. */
void blocks_close(struct pool *pool);

/* A record with addresses of its own: there, or anywhere with `start` 0. The caller has the lock. */
int leased_reserve(struct pool *pool, uint64_t start, uint64_t n_bytes, struct leased **ret_leased);

/* Leases a block of n_bytes, or as much larger as there are addresses for, or one of n_least_bytes and
 * more that others do not need, and maps it there; the addresses that it does not need are given up.
 * On failure all of it is. */
int leased_obtain(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                  uint64_t n_least_bytes, uint32_t wait_ms);

/* Has a block of n_bytes that the process keeps mapped leased to it again. GPUMEM_E_REFUSED: the daemon
 * has none to give, or has gone; GPUMEM_E_DISCONNECTED: it says nothing, or there is none. */
int leased_obtain_known(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased);

/* The same for a block that may be shared: made anew, exactly n_bytes. */
int leased_obtain_shareable(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                            uint32_t wait_ms);

/* Room for a larger block was kept: the rest is given up. */
void leased_shrink(struct pool *pool, struct leased *leased, uint64_t n_bytes);

/* Gives up addresses where nothing is mapped. */
void leased_cancel(struct pool *pool, struct leased *leased);

/* Maps the block of an ATTACH's answer on this connection. The fd is consumed. On failure the lease is still
 * the caller's to give back, unless the driver would not take everything away again: then it is stuck, and
 * *ret_is_stuck is set. */
int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, bool *ret_is_stuck, struct leased **ret_leased);

/* The connection is over by which blocks were leased, and its board will be gone: leases on the shelf,
 * and in heaps, have no words any more. The caller has the lock. */
void blocks_lose_words(struct pool *pool);

/* What there is to say about the block; the caller has the lock. The allocation is left alone. */
void leased_describe(const struct pool *pool, const struct leased *leased,
                     struct gpumem_info *info);

/* Unmaps it and gives it back. A mapping that the driver does not take away keeps its lease: a block
 * that is still reachable must not be anybody else's. It is stuck, and is tried again when another block has
 * been unmapped. */
void leased_free(struct pool *pool, struct leased *leased);

/* All that is stuck is tried once more. */
void leased_free_stuck(struct pool *pool);
