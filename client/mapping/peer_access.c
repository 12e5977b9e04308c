/* SPDX-License-Identifier: Apache-2.0 */
#include "client/mapping/peer_access.h"

#include "driver/vmm.h"

/* Prefers the writer: threads that allocate without a pause must not keep it waiting for ever. */
void peer_access_init(struct peer_access *access)
{
        pthread_rwlockattr_t attributes;

        *access = (struct peer_access){.ordinals = 0};
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(&access->lock, &attributes);
        pthread_rwlockattr_destroy(&attributes);
}

void peer_access_deinit(struct peer_access *access)
{
        pthread_rwlock_destroy(&access->lock);
}

void peer_access_hold(struct peer_access *access)
{
        pthread_rwlock_rdlock(&access->lock);
}

void peer_access_release(struct peer_access *access)
{
        pthread_rwlock_unlock(&access->lock);
}

int peer_access_allow(struct peer_access *access, const struct cuda *cuda, int ordinal,
                      peer_access_next *next, void *owner)
{
        uint64_t ordinals = vmm_device(ordinal);
        struct arena_block at = {.start = 0};
        int r = 0;

        pthread_rwlock_wrlock(&access->lock);
        while (!r && !(access->ordinals & ordinals) &&
               (at = next(owner, at.start + at.n_bytes)).n_bytes)
                r = vmm_allow(cuda, ordinals, at.start, at.n_bytes);
        if (!r)
                access->ordinals |= ordinals;
        pthread_rwlock_unlock(&access->lock);
        return r;
}
