/* SPDX-License-Identifier: Apache-2.0 */
/* The test as a program that uses the library, with a daemon of its own, GPUs and a client, and short
 * words for what tests do with them. Failures end the test. */
#pragma once

#include "gpumem.h"
#include "tests/live/daemon.h"

extern struct daemon gpumemd;
extern struct gpu *gpus[2];
extern unsigned n_gpus;
extern struct gpumem_client *client;
extern unsigned n_daemon_fds, n_own_fds; /* without the client */

/* Fixtures. At the end the daemon is charged nothing, has nothing reserved after free_all_blocks, and
 * both sides have as many fds open as before. */
void program_start_on(const char *emulator);
void program_start(void);
void program_stop(void);

/* Requests; the device's context is current after that. */
struct gpumem_request on_device(unsigned device, uint64_t n_bytes);
struct gpumem_request pinned(uint64_t n_bytes);

unsigned char *must_alloc(const struct gpumem_request *request);
void must_free(const struct gpumem_request *request, void *pointer);
struct gpumem_stats stats_of(enum gpumem_kind kind, int32_t place);

/* Bytes go to the device and come back. */
void check_device_bytes(unsigned device, unsigned char *pointer, uint64_t n_bytes);
