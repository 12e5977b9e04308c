/* SPDX-License-Identifier: Apache-2.0 */
/* The primary contexts of devices, for callers without a context: retained at first use, until the client ends. Any
 * thread. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "driver/cuda.h"

#define PRIMARY_CONTEXTS_MAX 64 /* CUDA ordinals from 0 on */

struct primary_contexts {
        pthread_mutex_t lock;
        uint64_t contexts[PRIMARY_CONTEXTS_MAX]; /* 0: not retained */
};

void primary_contexts_init(struct primary_contexts *primaries);

/* `cuda` may be NULL if none was ever retained. */
void primary_contexts_deinit(struct primary_contexts *primaries, const struct cuda *cuda);

/* Runs one call with the primary context of a device current; GPUMEM_NEAREST is the device of the current context, or
 * device 0. GPUMEM_E_NO_POOL: no such device. */
int primary_contexts_run(struct primary_contexts *primaries, const struct cuda *cuda, int32_t place,
                         int (*call)(const struct cuda *cuda, void *argument), void *argument);
