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

struct peers {
        pthread_rwlock_t lock;
        uint64_t ordinals; /* one a bit, as driver/vmm.h has them */
};

void peers_init(struct peers *peers);
void peers_deinit(struct peers *peers);

void peers_hold(struct peers *peers);
void peers_let_go(struct peers *peers);

/* The first block that is mapped from an address on; n_bytes 0: there is none. */
typedef struct arena_block peers_next(void *owner, uint64_t address);

/* The device reaches all of the pool's memory from now on. On failure it may reach some of what is mapped,
 * and what is mapped later is not concerned. */
int peers_allow(struct peers *peers, const struct cuda *cuda, int ordinal, peers_next *next,
                void *owner);
