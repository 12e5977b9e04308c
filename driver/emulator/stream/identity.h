/* SPDX-License-Identifier: Apache-2.0 */
/* The most queried facts of a stream: its id, its context, and whether it is captured. Read without a lock, since the
 * real driver answers such queries in some nanoseconds, and threads that ask do not contend. The tables of handles
 * stay authoritative: a stream that is not found here, as while a capture begins or ends in it, must be looked up
 * there. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/emulator/machine/handle.h"

struct context;

struct identity {
        uint64_t id;
        struct context *context; /* lives as long as the process */
        CUstreamCaptureStatus status;
};

/* With the emulator's lock held. Without memory for it, it will not be found. */
void identity_put(uintptr_t handle, const struct identity *identity);
void identity_remove(uintptr_t handle);

#define IDENTITY_CHUNK_SLOTS 256
#define IDENTITY_CHUNKS      1024

/* A reader that finds the version unchanged has read one identity, and not parts of two. */
struct identity_slot {
        uint64_t version; /* odd while it is written */
        uint64_t id;      /* 0: none */
        struct context *context;
        CUstreamCaptureStatus status;
};

/* Never moved, never freed: readers may be anywhere in them. */
extern struct identity_slot *identity_chunks[IDENTITY_CHUNKS];

static inline struct identity_slot *identity_slot_at(uintptr_t handle)
{
        uint32_t index = handle_index(HANDLE_STREAM, handle);
        struct identity_slot *chunk;

        if (index / IDENTITY_CHUNK_SLOTS >= IDENTITY_CHUNKS)
                return NULL;
        chunk = __atomic_load_n(&identity_chunks[index / IDENTITY_CHUNK_SLOTS], __ATOMIC_ACQUIRE);
        return chunk ? &chunk[index % IDENTITY_CHUNK_SLOTS] : NULL;
}

static inline bool identity_find(uintptr_t handle, struct identity *ret_identity)
{
        const struct identity_slot *slot = identity_slot_at(handle);
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
