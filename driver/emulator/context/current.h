/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's stack of current contexts; its top is the current one. No locks: a stack is
 * its thread's own. A context stays current when it ends, and works again when it comes back. */
#pragma once

#include <cuda.h>

#include "driver/emulator/machine/emulator.h"

struct context;

/* NULL: none is current. */
extern _Thread_local EMULATOR_HOT_TLS struct context *current_top;

/* CUDA_ERROR_OUT_OF_MEMORY: the stack is full. */
CUresult current_push(struct context *context);

/* Takes the top off, if there is one. */
void current_pop(void);

/* Takes the context off the top, if it is there. */
void current_forget(const struct context *context);
