/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/context/current.h"

#define CURRENT_MAX 64

_Thread_local EMULATOR_HOT_TLS struct current current_top;
static _Thread_local struct {
        struct current entries[CURRENT_MAX];
        unsigned n;
} below;

CUresult current_push(struct context *context, uint64_t id)
{
        if (current_top.context) {
                if (below.n == CURRENT_MAX)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                below.entries[below.n++] = current_top;
        }
        current_top = (struct current){context, id};
        return CUDA_SUCCESS;
}

void current_pop(void)
{
        current_top = below.n ? below.entries[--below.n] : (struct current){0};
}

void current_forget(const struct context *context)
{
        if (current_top.context == context)
                current_pop();
}
