/* SPDX-License-Identifier: Apache-2.0 */
/* The crowd's allocations: made, filled with bytes that no other process writes, compared with them, and
 * freed in one of several ways. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct crowd;

/* A stream of a device. */
struct crowd_lane {
        struct gpu *gpu;
        int device;
        void *scratch; /* device memory of CROWD_SCRATCH_BYTES, the source of copies */
};

#define CROWD_SCRATCH_BYTES (4 * KIB)

enum crowd_kind {
        CROWD_DEVICE,
        CROWD_PINNED,
        CROWD_UNBOUND, /* pinned, without a context */
};

enum crowd_filling { CROWD_UNFILLED, CROWD_COPIED, CROWD_SET };

struct crowd_memory {
        unsigned char *bytes;
        uint64_t n_bytes;
        enum crowd_kind kind;
        struct crowd_lane *lane; /* NULL: without a context */
        enum crowd_filling filling;
        uint64_t tag; /* determines its bytes */
};

/* Makes the context of the memory's lane current, or none. */
void crowd_use(const struct crowd *crowd, const struct crowd_lane *lane);

/* `flags` as in gpumem_request. Waits for memory that others hold. */
void crowd_alloc(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                 uint64_t n_bytes, uint32_t flags, struct crowd_memory *ret_memory);

/* Returns the code of gpumem_alloc. */
int crowd_try_alloc(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                    uint64_t n_bytes, uint32_t wait_ms, struct crowd_memory *ret_memory);

/* Does not wait; returns whether there was memory. */
bool crowd_alloc_now(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                     uint64_t n_bytes, struct crowd_memory *ret_memory);

/* Enqueued in the memory's stream; pinned memory is filled by the CPU. */
void crowd_fill(const struct crowd *crowd, struct crowd_memory *memory, enum crowd_filling filling,
                uint64_t tag);

/* Waits for the memory's stream, and fails if a byte is wrong. */
void crowd_check(struct crowd *crowd, const struct crowd_memory *memory);

/* Checks, then frees. */
void crowd_free(struct crowd *crowd, const struct crowd_memory *memory);
