/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is replaced by the next one, and a client that outlives it; short words for what tests of
 * that do. Failures end the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"

extern const char *const reconnect_options[]; /* the daemon's */
extern const char
        *const reconnect_by_driver[]; /* the same, with pinned memory of the driver's own */

extern struct daemon gpumemd;
extern struct gpu *gpus[2];
extern unsigned n_gpus;
extern struct gpumem_client *client;

/* Fixtures. Whatever a test did: the client has as many fds as before, the daemon that is there now is
 * charged nothing and can give everything back. */
void reconnect_start(void);
void reconnect_stop(void);

/* The device's context is current then. */
struct gpumem_request on_device(unsigned device, uint64_t n_bytes);
struct gpumem_request pinned(uint64_t n_bytes);

int try_alloc(struct gpumem_request request, void **ret_pointer);
unsigned char *must_alloc(struct gpumem_request request);
void must_free(unsigned device, void *pointer);

void fill(unsigned device, void *pointer, unsigned char byte, uint64_t n_bytes);
void check_filled(unsigned device, const void *pointer, unsigned char byte, uint64_t n_bytes);

/* It is of a daemon that has gone. */
bool is_held(const void *pointer);

/* Kills the daemon and starts the next one, which sees these devices; NULL: all. */
void restart_daemon(const char *visible);
