/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's stack of current contexts; its top is the current one. No locks: a stack is
 * its thread's own. */
#pragma once

#include <cuda.h>
#include <stdint.h>

#include "driver/emulator/machine/emulator.h"

struct context;

struct current {
        struct context *context;
        uint64_t id;
};

extern _Thread_local EMULATOR_HOT_TLS struct current current_top;

/* The current context, or NULL, and the id that it had when it became current. */
static inline struct context *current_get(uint64_t *ret_id)
{
        *ret_id = current_top.id;
        return current_top.context;
}

/* CUDA_ERROR_OUT_OF_MEMORY: the stack is full. */
CUresult current_push(struct context *context, uint64_t id);

/* Takes the top off, if there is one. */
void current_pop(void);

/* Takes the context off the top, if it is there. */
void current_forget(const struct context *context);
