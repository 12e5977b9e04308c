/* SPDX-License-Identifier: Apache-2.0 */
/* The test as a program with a daemon of its own, one GPU and one client, and short names for frequent
 * calls. Failures end the test. */
#pragma once

#include "tests/demo/gpu.h"
#include "tests/live/support/world.h"

extern struct gpu *gpu;
extern struct gpumem_client *client;

/* A GPU and a client of that user. solo_close ends both; the client may have ended. */
void solo_open(uid_t uid);
void solo_close(void);

/* The daemon, with both as the user that runs the test. solo_stop, a fixture, ends all like
 * daemon_stop_empty. */
void solo_start(const char *emulator, const char *const *options);
void solo_stop(void);

/* In the GPU's stream. */
struct gpumem_request request_of(enum gpumem_kind kind, uint64_t n_bytes);
int try_alloc(enum gpumem_kind kind, uint64_t n_bytes, void **ret_pointer);
void *must_alloc(enum gpumem_kind kind, uint64_t n_bytes);
void must_free(void *pointer);

struct gpumem_stats device_stats(void);

/* The last refusal contains this text. */
void must_say(const char *part);
