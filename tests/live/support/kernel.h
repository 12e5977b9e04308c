/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that writes to memory until it is stopped. The emulated driver runs none, so slow fills take its
 * place. For kernels a context must be current; failures end the test. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* From <cuda.h>, of any version. */
typedef __typeof__(cuLaunchKernel) kernel_launch;

struct kernel {
        const struct cuda *cuda;
        kernel_launch *launch; /* NULL: fills take its place */
        CUfunction function;
};

/* Whether the driver runs kernels, so it has a GPU. May be called outside of tests. */
bool kernel_is_real(void);

void kernel_init(struct kernel *kernel, const struct cuda *cuda);

/* Enqueues a kernel that writes that byte to all of it repeatedly, for half a second; n_bytes is a multiple
 * of 4 KiB. */
void kernel_spin(const struct kernel *kernel, CUstream stream, void *to, uint64_t n_bytes,
                 unsigned char byte);
