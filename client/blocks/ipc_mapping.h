/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pools whose handles are CUDA IPC's: the driver opens them, at an address of its choice.
 *
 * Such a block has no place in the arena before it is opened, and none from the moment on that it is
 * being closed, as its addresses may be another block's right after. A block whose lease was revoked may
 * come back while it is open still: it is opened again, at the same address, and takes the old record's
 * place. Closing waits for every running kernel and makes other threads' launches wait with it: it is done
 * where registered pinned memory is unregistered (retained.h), and while a request of this process waits for
 * memory, which might wait for what the process itself has open. Any thread, without the pool's lock. */
#pragma once

#include "client/blocks/pool_state.h"

static inline bool ipc_mapping_is_way(const struct pool *pool)
{
        return mapping_is_ipc(&pool->memory);
}

/* Can the calling thread open blocks of the pool? GPUMEM_E_NO_CONTEXT; GPUMEM_E_UNSUPPORTED when its
 * context is on another device. */
int ipc_mapping_check(const struct pool *pool);

/* What a block that comes back finds kept: it is the caller's to end, also where opening fails. */
struct ipc_mapping_way {
        struct leased_list list; /* to be freed */
        struct leased
                *old; /* its mapping is the new record's; its addresses are given up. NULL: none */
};

/* Opens the block that a fd says the handle of, and puts it in the arena. `way` is empty before.
 * GPUMEM_E_UNSUPPORTED when the driver's address is out of its reach. */
int ipc_mapping_open(struct pool *pool, struct leased *leased, int fd, struct ipc_mapping_way *way);

int ipc_mapping_close(struct pool *pool, struct leased *leased);
