/* Blocks between the daemon and the arena: leased, mapped; unmapped, returned. Any thread; the
 * pool's lock is taken inside, and is not held during driver calls and messages. */
#pragma once

#include "client/pool.h"

/* A leased block, mapped in the arena. */
struct leased {
        uint64_t lease;
        uint64_t block;      /* as the daemon names it */
        uint64_t connection; /* serial of the one that it was leased on */
        uint64_t address;
        uint64_t n_bytes;
        uint64_t n_uses; /* allocations ever cut from it */
        enum mapping mapping;
        struct stream_heap *heap; /* whose block it is; NULL: it is one allocation */
        struct shared *shared;    /* that allocation */
        bool is_attached;         /* another client's lease came first */
        uint64_t context;         /* of MAPPING_REGISTERED: where that was done */
};

/* Leases a block of at least n_bytes and maps it. */
int leased_new(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms, struct leased **ret_leased);

/* The same for a block that may be shared: made anew, exactly n_bytes. */
int leased_new_shareable(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms,
                         struct leased **ret_leased);

/* Maps the block of an ATTACH's answer on this connection. On failure the lease is still the
 * caller's to give back. The fd is consumed. */
int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, struct leased **ret_leased);

/* What there is to say about the block; the caller has the lock. The allocation is left alone. */
void leased_describe(const struct pool *pool, const struct leased *leased,
                     struct gpumem_info *info);

/* Unmaps it and gives it back. A mapping that the driver does not take away keeps its lease: a block
 * that is still reachable must not be anybody else's. */
void leased_free(struct pool *pool, struct leased *leased);
