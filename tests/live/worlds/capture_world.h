/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with a device of 256 MiB, this process with a client, and another process: for tests of
 * allocations and frees in captures. Failures end the test. */
#pragma once

#include <stdint.h>

#include "base/size.h"
#include "tests/live/support/calls.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/worlds/holder.h"

#define N_BYTES (4 * MIB)

/* Of 256 MiB: one such allocation leaves no room for another. */
#define MOST (200 * MIB)

/* No message tells that a block has become idle. */
#define LONG_MS 20000

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL

extern struct holder holder;
extern struct gpu *gpu;
extern struct cuda cuda;
extern struct capturer capturer;
extern struct gate gate;
extern struct gpumem_client *client; /* NULL: disconnected already */
extern CUstream captured, branch, side;

/* Fixtures. At the stop no client may be charged. */
void world_start(void);
void world_start_vmm(void); /* pinned memory comes from the driver */
void world_stop(void);

/* Sets this process's driver faults; see daemon.h. */
void world_fault(const char *faults);

/* Allocates device memory. */
int world_alloc(void *stream, uint64_t n_bytes, uint32_t wait_ms, void **ret_pointer);
void *world_must_alloc(void *stream, uint64_t n_bytes);
void world_must_free(void *pointer, void *stream);

/* The same for a kind, with flags. */
void *world_alloc_as(enum gpumem_kind kind, void *stream, uint64_t n_bytes, uint32_t flags);

/* Allocates and frees: there is room. */
void world_pass(void *stream, uint64_t n_bytes);

CUstream world_new_stream(void);
void world_synchronize(CUstream stream);

void world_fill(const void *pointer, unsigned char byte, uint64_t n_bytes, CUstream stream);
void world_copy(const void *to, const void *from, uint64_t n_bytes, CUstream stream);

/* Checks every byte, also while a stream captures. */
void world_check(const void *pointer, unsigned char byte, uint64_t n_bytes);

struct gpumem_stats world_stats(void);

/* Checks that another process can get all memory that this one does not keep. */
void world_everything_is_free(void);

/* Orders all later work of one stream after the present work of the other: in a capture a fork or a join. */
void world_order(CUstream later, CUstream earlier);

/* Begins a graph pool; 0: a new one. Returns the pool's id. */
uint64_t world_begin_pool(uint64_t id, CUstream stream);
void world_end_pool(uint64_t id, CUstream stream);
