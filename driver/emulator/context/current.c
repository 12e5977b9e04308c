/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/context/current.h"

#define CURRENT_MAX 64

_Thread_local EMULATOR_HOT_TLS struct context *current_top;
static _Thread_local struct {
        struct context *entries[CURRENT_MAX];
        unsigned n;
} below;

CUresult current_push(struct context *context)
{
        if (current_top) {
                if (below.n == CURRENT_MAX)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                below.entries[below.n++] = current_top;
        }
        current_top = context;
        return CUDA_SUCCESS;
}

void current_pop(void)
{
        current_top = below.n ? below.entries[--below.n] : NULL;
}

void current_forget(const struct context *context)
{
        if (current_top == context)
                current_pop();
}
