/* SPDX-License-Identifier: Apache-2.0 */
/* A device as an application uses it: a context, a stream, and staging memory for copies. One thread. */
#pragma once

#include <stdint.h>

struct gpu;

/* Cells of up to 64 KiB that fit the staging memory together. */
#define GPU_CELLS_MAX 64

/* `ordinal` as the process sees it. Failures are printed on stderr. */
int gpu_new(int ordinal, struct gpu **ret_gpu);
struct gpu *gpu_free(struct gpu *gpu);

/* Makes the device's context current, or none. */
int gpu_use(struct gpu *gpu);
int gpu_use_none(struct gpu *gpu);

void *gpu_stream(const struct gpu *gpu);

/* Staging memory for one copy. When it is used up, the function waits for the stream and starts from the
 * beginning. After gpu_restart at least GPU_CELLS_MAX pieces of 64 KiB fit. */
int gpu_stage(struct gpu *gpu, uint64_t n_bytes, void **ret_bytes);
int gpu_restart(struct gpu *gpu);

/* Enqueued in the device's stream. */
int gpu_copy_to_device(struct gpu *gpu, void *to, const void *staged, uint64_t n_bytes);
int gpu_copy_to_host(struct gpu *gpu, void *staged, const void *from, uint64_t n_bytes);

int gpu_fill(struct gpu *gpu, void *to, unsigned char byte, uint64_t n_bytes);

/* Enqueued in the default stream, which is not ordered with the other one. */
int gpu_copy_to_host_by_default(struct gpu *gpu, void *staged, const void *from, uint64_t n_bytes);

/* Orders all later work of this stream after the present work of `earlier`'s. This device's context is
 * current afterwards. */
int gpu_order_after(struct gpu *gpu, struct gpu *earlier);

int gpu_synchronize(struct gpu *gpu);

/* The driver's own count of the device's memory. */
int gpu_memory(struct gpu *gpu, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes);
