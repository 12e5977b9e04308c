#include "client/mapping/peers.h"

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

int peers_allow(struct peers *peers, const struct cuda *cuda, int ordinal, peers_next *next,
                void *owner)
{
        uint64_t ordinals = vmm_device(ordinal);
        struct arena_block at = {.start = 0};
        int r = 0;

        pthread_rwlock_wrlock(&peers->lock);
        while (!r && !(peers->ordinals & ordinals) &&
               (at = next(owner, at.start + at.n_bytes)).n_bytes)
                r = vmm_allow(cuda, ordinals, at.start, at.n_bytes);
        if (!r)
                peers->ordinals |= ordinals;
        pthread_rwlock_unlock(&peers->lock);
        return r;
}
