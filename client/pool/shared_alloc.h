/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with a block of its own: allocations that other processes, or network adapters, may reach, and attached
 * allocations of other processes. Each pool has its list, guarded by the pool's lock; driver calls and messages are made
 * without the lock. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"
#include "gpumem.h"

enum shared_alloc_kind {
        SHARED_ALLOC_OWN,      /* allocated here; counted as an allocation */
        SHARED_ALLOC_ATTACHED, /* another client's, which counts it */
};

struct shared_alloc_info {
        enum shared_alloc_kind kind;
        uint32_t properties; /* PROTO_PROPERTY_*, of the allocation's block; attached: 0 */
        uint64_t lease;
        uint64_t connection;   /* serial of the one that it was leased on */
        uint64_t n_bytes;      /* as the owner requested */
        struct stream_key key; /* of the allocation, or of the attach; context 0: none */
};

/* The flags of requests for such memory. */
#define SHARED_ALLOC_FLAGS (GPUMEM_SHAREABLE | GPUMEM_REGISTERED | GPUMEM_RDMA)

/* As pool_alloc, for a request with some of SHARED_ALLOC_FLAGS. */
int shared_alloc_new(struct pool *pool, const struct stream_key *key,
                     const struct gpumem_request *request, void **ret_pointer);

/* Maps the block of ATTACHED, which came on this connection. After a failure the caller returns the lease, unless the
 * block is stuck (leased_attach). The fd is consumed. */
int shared_alloc_attach(struct pool *pool, const struct stream_key *key, uint64_t connection,
                        const struct message_attached *answer, int take_fd, bool *ret_is_stuck,
                        void **ret_pointer);

/* Finds the allocation that starts at `pointer`. GPUMEM_E_NOT_OURS. */
int shared_alloc_find(struct pool *pool, const void *pointer, struct shared_alloc_info *ret_info);

/* The same for an allocation in which `pointer` lies; *ret_n_bytes is what follows it there. */
int shared_alloc_find_within(struct pool *pool, const void *pointer,
                             struct shared_alloc_info *ret_info, uint64_t *ret_n_bytes);

/* As pool_describe. */
int shared_alloc_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info);

/* Unmaps an allocation that shared_alloc_find has found, and returns its lease; work that uses it is over.
 * GPUMEM_E_NOT_OURS: another thread has done so meanwhile. */
int shared_alloc_end(struct pool *pool, const void *pointer, uint64_t lease);

/* The client ends: unmaps and returns all of them. */
void shared_alloc_return_all(struct pool *pool);
