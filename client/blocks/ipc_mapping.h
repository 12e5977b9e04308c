/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pools that are shared as CUDA IPC handles: the driver opens them, at an address of its choice.
 *
 * Such a block has no place in the arena before it is opened. It loses its place when its close begins, since its
 * addresses may belong to another block right afterwards. A block whose lease was revoked may come back while it is
 * still open: it is opened again at the same address, and replaces the old record.
 *
 * A close waits for every running kernel, and other threads' launches wait with it. So blocks are closed where
 * registered pinned memory is unregistered (retained.h), and while a request of this process waits for memory: that
 * memory might be what this process has open. Any thread, without the pool's lock. */
#pragma once

#include "client/blocks/pool_state.h"

/* Can the calling thread open blocks of the pool? GPUMEM_E_NO_CONTEXT; GPUMEM_E_UNSUPPORTED: its context is on
 * another device. */
int ipc_mapping_check(const struct pool *pool);

/* Names a context for the blocks that are opened in it: by the id that the driver tells, or else by its handle. Only that
 * context's allocations are cut from them. */
uint64_t ipc_mapping_context_id(const struct pool *pool, uint64_t context);

/* Has the context ended in which the block was opened? It took the mapping with it. */
bool ipc_mapping_is_over(const struct pool *pool, const struct leased *leased);

/* What an opened block replaces. The caller ends both, also if opening fails. */
struct ipc_mapping_way {
        struct leased_list list; /* blocks to be freed */
        struct leased
                *old; /* the new record took its mapping; its addresses are given up. NULL: none */
};

/* Opens the block whose handle is in the fd, and puts it into the arena. `way` is empty before. GPUMEM_E_UNSUPPORTED:
 * the driver chose an address outside the arena. */
int ipc_mapping_open(struct pool *pool, struct leased *leased, int fd, struct ipc_mapping_way *way);

int ipc_mapping_close(struct pool *pool, struct leased *leased);
