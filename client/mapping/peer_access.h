/* SPDX-License-Identifier: Apache-2.0 */
/* Which other devices reach the memory of a pool: blocks that are mapped when they are allowed to, and
 * blocks that are mapped later. For good: a device is never shut out again.
 *
 * Who maps or unmaps a block holds this meanwhile, as others may at the same time; who changes what is
 * mapped already waits for them, and they for him. Taken before the pool's lock. Any thread. */
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

/* The first block that is mapped from an address on; n_bytes 0: there is none. */
typedef struct arena_block peer_access_next(void *owner, uint64_t address);

/* The device reaches all of the pool's memory from now on. On failure it may reach some of what is mapped,
 * and what is mapped later is not concerned. */
int peer_access_allow(struct peer_access *access, const struct cuda *cuda, int ordinal,
                      peer_access_next *next, void *owner);
