/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls that begin and end contexts, with the streams and the memory that belong to one. */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/context/current.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/memory/host.h"
#include "driver/emulator/memory/memory.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/identity.h"
#include "driver/emulator/stream/stream.h"

/* CU_CTX_MAP_HOST is not among them: every context has it. */
#define PRIMARY_FLAGS (CU_CTX_FLAGS_MASK & ~CU_CTX_MAP_HOST)

static struct context primaries[CONFIG_DEVICES_MAX]; /* under the emulator's lock */

/* Retaining and releasing primary contexts, one at a time and whole; taken before any other. */
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

/* A primary context costs the device some memory, if so configured. */
static CUresult context_charge(struct context *context)
{
        uint64_t n_bytes = emulator_get()->config.context_bytes;

        if (!n_bytes)
                return CUDA_SUCCESS;
        return emulator_result(
                store_create(emulator_store(context->device), n_bytes, 0, &context->charge));
}

/* A context that was reset is inactive, however often it is retained: the next retain brings it back. */
static CUresult primary_retain(struct context *context, unsigned device)
{
        bool is_active = context->state == CONTEXT_ACTIVE;
        CUresult r;

        emulator_lock();
        r = context_setup(context, CONTEXT_PRIMARY, device);
        emulator_unlock();
        if (r == CUDA_SUCCESS && !is_active)
                r = context_charge(context);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        if (!is_active)
                context_activate(context, context->flags);
        context->n_retained++;
        emulator_unlock();
        return CUDA_SUCCESS;
}

/* Takes the handles of its streams away; they end when their queues are empty, and captures now. */
static void streams_close(struct context *context, struct user_list *dead)
{
        struct stream *stream, *next;

        for (stream = TAILQ_FIRST(&context->streams); stream; stream = next) {
                next = TAILQ_NEXT(stream, link);
                capture_forget(stream, dead);
                if (!stream->handle)
                        continue;
                identity_remove(stream->handle);
                handle_free(HANDLE_STREAM, stream->handle);
                stream->handle = 0;
                stream_close(stream);
        }
        if (context->legacy)
                stream_close(steal_ptr(context->legacy));
}

static void context_end(struct context *context)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct store_hold charge;

        (void)stream_wait_all(context);
        emulator_lock();
        context->state = CONTEXT_INACTIVE;
        context->flags = 0;
        __atomic_store_n(&context->live_id, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&context->legacy_id, 0, __ATOMIC_RELEASE);
        streams_close(context, &dead);
        charge = context->charge;
        context->charge.fd = -1;
        emulator_unlock();
        user_destroy(&dead);
        memory_context_ended(context);
        host_context_ended(context);
        if (charge.fd >= 0)
                store_release(emulator_store(context->device), &charge);
}

EMULATOR_API CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_context)
                return CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_lock(&primary_lock);
        r = primary_retain(&primaries[device], (unsigned)device);
        (void)pthread_mutex_unlock(&primary_lock);
        if (r == CUDA_SUCCESS)
                *ret_context = context_handle(&primaries[device]);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
        struct context *context;
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        context = &primaries[device];
        (void)pthread_mutex_lock(&primary_lock);
        if (!context->n_retained)
                r = CUDA_ERROR_INVALID_CONTEXT;
        else if (!--context->n_retained && context->state == CONTEXT_ACTIVE)
                context_end(context);
        (void)pthread_mutex_unlock(&primary_lock);
        return r;
}

static void flags_put(struct context *context, unsigned flags)
{
        emulator_lock();
        context->flags = flags;
        emulator_unlock();
}

/* A caller that has retained it must release it all the same. */
EMULATOR_API CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device)
{
        struct context *context;
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        context = &primaries[device];
        (void)pthread_mutex_lock(&primary_lock);
        if (context->state == CONTEXT_ACTIVE)
                context_end(context);
        else
                flags_put(context, 0);
        (void)pthread_mutex_unlock(&primary_lock);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *ret_flags,
                                                         int *ret_is_active)
{
        CUresult r = emulator_enter_for(__func__, device);

        if (r == CUDA_SUCCESS && (!ret_flags || !ret_is_active))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        (void)pthread_mutex_lock(&primary_lock);
        *ret_flags = primaries[device].flags;
        *ret_is_active = primaries[device].state == CONTEXT_ACTIVE;
        (void)pthread_mutex_unlock(&primary_lock);
        return CUDA_SUCCESS;
}

/* Only one of the flags for how threads wait may be set. */
static bool are_flags(unsigned flags)
{
        unsigned waiting = flags & CU_CTX_SCHED_MASK;

        return !(flags & ~(unsigned)PRIMARY_FLAGS) && !(waiting & (waiting - 1));
}

EMULATOR_API CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
        CUresult r = emulator_enter_for(__func__, device);

        if (r == CUDA_SUCCESS && !are_flags(flags))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        (void)pthread_mutex_lock(&primary_lock);
        flags_put(&primaries[device], flags);
        (void)pthread_mutex_unlock(&primary_lock);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxCreate(CUcontext *ret_context, CUctxCreateParams *parameters,
                                          unsigned int flags, CUdevice device)
{
        struct context *context;
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_context)
                return CUDA_ERROR_INVALID_VALUE;
        if (parameters && (parameters->numExecAffinityParams || parameters->cigParams))
                return CUDA_ERROR_NOT_SUPPORTED;
        context = calloc(1, sizeof(*context));
        if (!context)
                return CUDA_ERROR_OUT_OF_MEMORY;
        emulator_lock();
        r = context_setup(context, CONTEXT_CREATED, (unsigned)device);
        if (r == CUDA_SUCCESS)
                context_activate(context, flags);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                r = current_push(context);
        if (r == CUDA_SUCCESS)
                *ret_context = context_handle(context);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxDestroy(CUcontext handle)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        context = handle_find(HANDLE_CONTEXT, (uintptr_t)handle);
        if (!context || context->kind != CONTEXT_CREATED)
                r = CUDA_ERROR_INVALID_CONTEXT;
        else if (context->state != CONTEXT_ACTIVE)
                r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                return r;
        current_forget(context);
        context_end(context);
        return CUDA_SUCCESS;
}
