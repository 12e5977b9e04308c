/* What is asked of a stream most: its id, its context, and whether it is captured. Read without a lock,
 * since the real driver answers such questions in some nanoseconds, and threads that ask do not meet
 * in it. The tables of handles stay the truth: what is not found here is to be looked up there. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct context;

struct identity {
        uint64_t id;
        struct context *context; /* lives as long as the process */
        CUstreamCaptureStatus status;
};

/* With the emulator's lock held. Where there is no memory for it, it is not found. */
void identity_put(uintptr_t handle, const struct identity *identity);
void identity_remove(uintptr_t handle);

bool identity_find(uintptr_t handle, struct identity *ret_identity);
