/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and checks the bytes of one allocation: by copies through a device, or by the CPU if the memory is
 * pinned. Any process that holds the memory may call it. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gpu;

struct share_memory {
        struct gpu *gpu; /* NULL: pinned memory */
        unsigned char *bytes;
        uint64_t n_bytes;
};

/* Fills all of it with the pattern of `seed`; complete on return. */
int share_memory_fill(const struct share_memory *memory, unsigned seed);

/* Counts the bytes that differ from the pattern of `seed`. */
int share_memory_check(const struct share_memory *memory, unsigned seed,
                       uint64_t *ret_n_wrong_bytes);
