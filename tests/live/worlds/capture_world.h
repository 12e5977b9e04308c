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

/* Fixtures. At the stop nothing is charged to anybody. */
void world_start(void);
void world_start_vmm(void); /* pinned memory is of the driver's own */
void world_stop(void);

/* This process's driver has these faults; see daemon.h. */
void world_fault(const char *faults);

/* Device memory. */
int world_alloc(void *stream, uint64_t n_bytes, uint32_t wait_ms, void **ret_pointer);
void *world_must_alloc(void *stream, uint64_t n_bytes);
void world_must_free(void *pointer, void *stream);

/* The same of a kind, with flags. */
void *world_alloc_as(enum gpumem_kind kind, void *stream, uint64_t n_bytes, uint32_t flags);

/* Both in a word: there is room. */
void world_pass(void *stream, uint64_t n_bytes);

CUstream world_new_stream(void);
void world_synchronize(CUstream stream);

void world_fill(const void *pointer, unsigned char byte, uint64_t n_bytes, CUstream stream);
void world_copy(const void *to, const void *from, uint64_t n_bytes, CUstream stream);

/* Every byte is that one now, whatever captures. */
void world_check(const void *pointer, unsigned char byte, uint64_t n_bytes);

struct gpumem_stats world_stats(void);

/* Another process can have what this one does not keep. */
void world_everything_is_free(void);

/* What is enqueued later comes after what is there earlier: in a capture a fork, or a join. */
void world_order(CUstream later, CUstream earlier);

/* 0: a new one. The pool's id. */
uint64_t world_begin_pool(uint64_t id, CUstream stream);
void world_end_pool(uint64_t id, CUstream stream);
