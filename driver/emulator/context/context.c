/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/context/context.h"

#include "driver/emulator/context/current.h"
#include "driver/emulator/machine/handle.h"

static uint64_t last_id; /* under the emulator's lock */

/* All that ever were, the last one first; they are added under the lock and read without. */
static struct context *contexts;

CUcontext context_handle(const struct context *context)
{
        return (CUcontext)(context ? context->handle : 0);
}

static void fail_one(struct context *context, CUresult failure)
{
        CUresult none = CUDA_SUCCESS;

        (void)__atomic_compare_exchange_n(&context->failure, &none, failure, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* An illegal address is a failure of the whole process: none of its contexts can be used any more. */
void context_fail(struct context *context, CUresult failure)
{
        struct context *other = __atomic_load_n(&contexts, __ATOMIC_ACQUIRE);

        fail_one(context, failure);
        for (; other && failure == CUDA_ERROR_ILLEGAL_ADDRESS; other = other->next)
                fail_one(other, failure);
}

CUresult context_current(struct context **ret_context)
{
        struct context *context = current_top;

        if (!context)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (!__atomic_load_n(&context->live_id, __ATOMIC_ACQUIRE))
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        *ret_context = context;
        return CUDA_SUCCESS;
}

CUresult context_get(struct context **ret_context)
{
        struct context *context;
        CUresult r = context_current(&context);

        if (r == CUDA_SUCCESS)
                r = context_failure(context);
        if (r == CUDA_SUCCESS)
                *ret_context = context;
        return r;
}

CUresult context_check(void)
{
        struct context *context;

        return current_top ? context_get(&context) : CUDA_SUCCESS;
}

CUresult context_setup(struct context *context, enum context_kind kind, unsigned device)
{
        if (!context->handle) {
                if (handle_new(HANDLE_CONTEXT, context, &context->handle))
                        return CUDA_ERROR_OUT_OF_MEMORY;
                TAILQ_INIT(&context->streams);
                context->kind = kind;
                context->device = device;
                context->charge.fd = -1;
                context->next = contexts;
                __atomic_store_n(&contexts, context, __ATOMIC_RELEASE);
        }
        return CUDA_SUCCESS;
}

void context_activate(struct context *context, unsigned flags)
{
        context->id = ++last_id;
        context->flags = flags;
        context->state = CONTEXT_ACTIVE;
        __atomic_store_n(&context->failure, CUDA_SUCCESS, __ATOMIC_RELEASE);
        __atomic_store_n(&context->live_id, context->id, __ATOMIC_RELEASE);
}
