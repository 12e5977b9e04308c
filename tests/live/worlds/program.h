/* SPDX-License-Identifier: Apache-2.0 */
/* The test as a program that uses the library, with a daemon of its own, GPUs and a client, and short names
 * for frequent calls. Failures end the test. */
#pragma once

#include "tests/demo/gpu.h"
#include "tests/live/support/world.h"

extern struct gpu *gpus[2];
extern unsigned n_gpus;
extern struct gpumem_client *client;
extern unsigned n_daemon_fds, n_own_fds; /* without the client */

/* Fixtures. At the end the daemon is charged nothing, has nothing reserved after free_all_blocks, and both
 * sides have as many fds open as before. */
void program_start_with(const char *emulator, const char *const *options);
void program_start_on(const char *emulator);
void program_start(void);
void program_stop(void);

/* A GPU for each of the process's devices, or for the first ones. */
void open_gpus(unsigned n);
void close_gpus(void);

/* Requests; the device's context is current afterwards. */
struct gpumem_request on_device(unsigned device, uint64_t n_bytes);
struct gpumem_request pinned(uint64_t n_bytes);

unsigned char *must_alloc(const struct gpumem_request *request);
void must_free(const struct gpumem_request *request, void *pointer);
struct gpumem_stats stats_of(enum gpumem_kind kind, int32_t place);

/* Short forms: on a device or of pinned memory, freed in that device's stream. */
int try_on(unsigned device, uint64_t n_bytes, void **ret_pointer);
unsigned char *alloc_on(unsigned device, uint64_t n_bytes, uint32_t flags);
unsigned char *alloc_pinned(uint64_t n_bytes);
void free_on(unsigned device, void *pointer);

/* By that device's stream, which is waited for. */
void fill(unsigned device, void *pointer, unsigned char byte, uint64_t n_bytes);
void check_filled(unsigned device, const void *pointer, unsigned char byte, uint64_t n_bytes);

/* Copies bytes to the device and back. */
void check_device_bytes(unsigned device, unsigned char *pointer, uint64_t n_bytes);
