/* SPDX-License-Identifier: Apache-2.0 */
/* Which other devices may reach the memory of a pool: blocks that are mapped already, and blocks that are mapped
 * later. A device is never excluded again.
 *
 * A thread that maps or unmaps a block holds this lock shared. A thread that changes access holds it exclusively.
 * Taken before the pool's lock. Any thread. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "client/heap/arena.h"
#include "driver/cuda.h"

struct peer_access {
        pthread_rwlock_t lock;
        uint64_t ordinals; /* one a bit, as driver/vmm.h has them */
};

void peer_access_init(struct peer_access *access);
void peer_access_deinit(struct peer_access *access);

void peer_access_hold(struct peer_access *access);
void peer_access_release(struct peer_access *access);

/* Returns the first mapped block from an address on; n_bytes 0: there is none. */
typedef struct arena_block peer_access_next(void *owner, uint64_t address);

/* Lets the device reach all of the pool's memory. After a failure it may reach some of the blocks that are mapped,
 * and blocks that are mapped later stay as they would have been. */
int peer_access_allow(struct peer_access *access, const struct cuda *cuda, int ordinal,
                      peer_access_next *next, void *owner);
