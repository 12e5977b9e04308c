#include "client/peers.h"

#include "client/blocks.h"
#include "driver/vmm.h"

/* Who allocates without a pause must not keep the one away who waits for all of them. */
void peers_init(struct peers *peers)
{
        pthread_rwlockattr_t attributes;

        *peers = (struct peers){.ordinals = 0};
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(&peers->lock, &attributes);
        pthread_rwlockattr_destroy(&attributes);
}

void peers_deinit(struct peers *peers)
{
        pthread_rwlock_destroy(&peers->lock);
}

void peers_hold(struct peers *peers)
{
        pthread_rwlock_rdlock(&peers->lock);
}

void peers_let_go(struct peers *peers)
{
        pthread_rwlock_unlock(&peers->lock);
}

/* The first block that is mapped from an address on; n_bytes 0: there is none. Addresses that are chosen for
 * blocks change meanwhile, but those of blocks that are mapped do not. */
static struct arena_block next_mapped(struct pool *pool, uint64_t address)
{
        struct arena_block found = {.n_bytes = 0};
        const struct leased *leased;

        pthread_mutex_lock(&pool->lock);
        while ((leased = leased_of(arena_next(pool->arena, address))) && !leased->is_mapped)
                address = leased_address(leased) + leased_bytes(leased);
        if (leased)
                found = leased->block.at;
        pthread_mutex_unlock(&pool->lock);
        return found;
}

static int allow_mapped(struct pool *pool, uint64_t ordinals)
{
        struct arena_block at = {.start = arena_start(pool->arena)};
        int r = 0;

        while (!r && (at = next_mapped(pool, at.start + at.n_bytes)).n_bytes)
                r = vmm_allow(pool->memory.cuda, ordinals, at.start, at.n_bytes);
        return r;
}

int peers_allow(struct pool *pool, int ordinal)
{
        uint64_t ordinals = vmm_device(ordinal);
        struct peers *peers = &pool->peers;
        int r = 0;

        pthread_rwlock_wrlock(&peers->lock);
        if (pool->arena && !(peers->ordinals & ordinals))
                r = allow_mapped(pool, ordinals);
        if (!r)
                peers->ordinals |= ordinals;
        pthread_rwlock_unlock(&peers->lock);
        return r;
}
