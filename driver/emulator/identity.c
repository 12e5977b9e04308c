#include "driver/emulator/identity.h"

#include <stddef.h>
#include <stdlib.h>

#include "driver/emulator/handle.h"

#define CHUNK_SLOTS 256
#define N_CHUNKS    1024

/* A reader that finds the version unchanged has read one identity, and not parts of two. */
struct slot {
        uint64_t version; /* odd while it is written */
        uint64_t id;      /* 0: none */
        struct context *context;
        CUstreamCaptureStatus status;
};

/* Never moved, never freed: readers may be anywhere in them. */
static struct slot *chunks[N_CHUNKS];

static struct slot *slot_at(uintptr_t handle)
{
        uint32_t index = handle_index(HANDLE_STREAM, handle);
        struct slot *chunk;

        if (index / CHUNK_SLOTS >= N_CHUNKS)
                return NULL;
        chunk = __atomic_load_n(&chunks[index / CHUNK_SLOTS], __ATOMIC_ACQUIRE);
        return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

/* Nothing of it may be seen before the odd version, and the even one not before all of it. */
static void slot_write(struct slot *slot, const struct identity *identity)
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
        struct slot *slot = slot_at(handle);

        if (!slot && index / CHUNK_SLOTS < N_CHUNKS) {
                __atomic_store_n(&chunks[index / CHUNK_SLOTS], calloc(CHUNK_SLOTS, sizeof(*slot)),
                                 __ATOMIC_RELEASE);
                slot = slot_at(handle);
        }
        if (slot)
                slot_write(slot, identity);
}

void identity_remove(uintptr_t handle)
{
        struct slot *slot = slot_at(handle);

        if (slot)
                slot_write(slot, &(struct identity){0});
}

bool identity_find(uintptr_t handle, struct identity *ret_identity)
{
        const struct slot *slot = slot_at(handle);
        struct identity identity;
        uint64_t version;

        if (!slot)
                return false;
        version = __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
        identity.id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
        identity.context = __atomic_load_n(&slot->context, __ATOMIC_ACQUIRE);
        identity.status = __atomic_load_n(&slot->status, __ATOMIC_ACQUIRE);
        if (version % 2 || __atomic_load_n(&slot->version, __ATOMIC_RELAXED) != version ||
            !identity.id)
                return false;
        *ret_identity = identity;
        return true;
}
