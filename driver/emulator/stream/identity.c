/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/identity.h"

#include <stdlib.h>

struct identity_slot *identity_chunks[IDENTITY_CHUNKS];

/* Nothing of it may be seen before the odd version, and the even one not before all of it. */
static void slot_write(struct identity_slot *slot, const struct identity *identity)
{
        uint64_t version = __atomic_load_n(&slot->version, __ATOMIC_RELAXED);

        __atomic_store_n(&slot->version, version + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->id, identity->id, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->context, identity->context, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->status, identity->status, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->version, version + 2, __ATOMIC_RELEASE);
}

void identity_put(uintptr_t handle, const struct identity *identity)
{
        uint32_t index = handle_index(HANDLE_STREAM, handle);
        struct identity_slot *slot = identity_slot_at(handle);

        if (!slot && index / IDENTITY_CHUNK_SLOTS < IDENTITY_CHUNKS) {
                __atomic_store_n(&identity_chunks[index / IDENTITY_CHUNK_SLOTS],
                                 calloc(IDENTITY_CHUNK_SLOTS, sizeof(*slot)), __ATOMIC_RELEASE);
                slot = identity_slot_at(handle);
        }
        if (slot)
                slot_write(slot, identity);
}

void identity_remove(uintptr_t handle)
{
        struct identity_slot *slot = identity_slot_at(handle);

        if (slot)
                slot_write(slot, &(struct identity){0});
}
