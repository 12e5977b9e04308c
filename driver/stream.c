/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/stream.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/err.h"
#include "driver/context.h"
#include "gpumem.h"

#define PAGE_BYTES 4096
#define END_TRIES  3

/* A default stream belongs to the current context; any other knows its own. */
static int stream_context(const struct cuda *cuda, CUstream stream, CUcontext *ret_context)
{
        CUcontext context;
        int r;

        if (!stream_is_created(stream))
                r = CUDA_CALL(cuda, cuCtxGetCurrent, &context);
        else
                r = CUDA_CALL(cuda, cuStreamGetCtx, stream, &context);
        if (r)
                return r;
        if (!context)
                return GPUMEM_E_NO_CONTEXT;
        *ret_context = context;
        return 0;
}

int stream_find_context(const struct cuda *cuda, void *stream, uint64_t *ret_context)
{
        CUcontext context;
        int r = stream_context(cuda, stream, &context);

        if (!r)
                *ret_context = (uint64_t)(uintptr_t)context;
        return r;
}

static int current_device(const struct cuda *cuda, void *argument)
{
        return CUDA_CALL(cuda, cuCtxGetDevice, argument);
}

static int register_page(const struct cuda *cuda, void **ret_page)
{
        void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0);
        int r;

        if (page == MAP_FAILED)
                return err_errno();
        r = CUDA_CALL(cuda, cuMemHostRegister, page, PAGE_BYTES, 0);
        if (r) {
                (void)munmap(page, PAGE_BYTES);
                return r;
        }
        *ret_page = page;
        return 0;
}

/* A page that stays registered cannot be unmapped, so a call that fails now and then is repeated. */
static int unregister_at_last(const struct cuda *cuda, void *page)
{
        int r = CUDA_CALL(cuda, cuMemHostUnregister, page);

        for (unsigned i = 1; r && i < END_TRIES; i++)
                r = CUDA_CALL(cuda, cuMemHostUnregister, page);
        if (!r)
                (void)munmap(page, PAGE_BYTES);
        return r;
}

static int free_at_last(const struct cuda *cuda, CUdeviceptr piece)
{
        int r = CUDA_CALL(cuda, cuMemFree, piece);

        for (unsigned i = 1; r && i < END_TRIES; i++)
                r = CUDA_CALL(cuda, cuMemFree, piece);
        return r;
}

/* Does not use cuCtxSynchronize: that invalidates the captures of the context's streams, in any mode of the thread,
 * and whether there are captures cannot be known. To unregister a page waits for the same work, and invalidates
 * nothing in RELAXED mode; but other threads' launches wait with it. The system may have no page to register: a
 * process may lock only so much, or memory is short. To free a piece of device memory waits likewise. If the driver
 * has neither, the error is that of the page. */
static int synchronize_current(const struct cuda *cuda, void *argument)
{
        CUdeviceptr piece;
        void *page;
        int r = register_page(cuda, &page);

        (void)argument;
        if (!r)
                return unregister_at_last(cuda, page);
        if (CUDA_CALL(cuda, cuMemAlloc, &piece, PAGE_BYTES))
                return r;
        return free_at_last(cuda, piece);
}

/* A stream whose capture was invalidated tells that it captures, but not its context. A default stream tells nothing
 * while no context is current. */
static int context_outside_capture(const struct cuda *cuda, void *stream, CUcontext *ret_context)
{
        bool is_created = stream_is_created(stream);
        CUcontext context;
        int r = is_created ? stream_check(cuda, stream) : 0;

        if (!r)
                r = stream_context(cuda, stream, &context);
        if (!r && !is_created)
                r = stream_check(cuda, stream);
        if (!r)
                *ret_context = context;
        return r;
}

bool stream_is_locked(const struct cuda *cuda, void *stream)
{
        CUstreamCaptureStatus status;

        return stream_is_legacy(stream) && (int)cuda->cuStreamIsCapturing(stream, &status) ==
                                                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

int stream_look_default(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark)
{
        unsigned long long id;
        CUcontext context;
        int r;

        r = context_outside_capture(cuda, stream, &context);
        if (!r)
                r = CUDA_CALL(cuda, cuStreamGetId, stream, &id);
        if (r)
                return r;
        *ret_mark = (struct stream_mark){.scope = (uint64_t)(uintptr_t)context, .id = id};
        return 0;
}

static int find_outside_capture(const struct cuda *cuda, void *stream, CUcontext *ret_context,
                                unsigned long long *ret_id)
{
        CUcontext context;
        int r = context_outside_capture(cuda, stream, &context);

        if (!r)
                r = CUDA_CALL(cuda, cuStreamGetId, stream, ret_id);
        if (!r)
                *ret_context = context;
        return r;
}

static int identify(const struct cuda *cuda, CUcontext context, uint64_t id,
                    struct stream_key *ret_key, int *ret_ordinal)
{
        CUdevice device;
        int r = context_run(cuda, (uint64_t)(uintptr_t)context, current_device, &device);

        if (r)
                return r;
        *ret_key = (struct stream_key){.context = (uint64_t)(uintptr_t)context, .id = id};
        *ret_ordinal = device;
        return 0;
}

int stream_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                    int *ret_ordinal)
{
        unsigned long long id;
        CUcontext context;
        int r = find_outside_capture(cuda, stream, &context, &id);

        return r ? r : identify(cuda, context, id, ret_key, ret_ordinal);
}

int stream_identify_host(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                         uint64_t *ret_context_id)
{
        uint64_t context_id = 0;
        unsigned long long id;
        CUcontext context;
        int r = find_outside_capture(cuda, stream, &context, &id);

        if (!r && context_has_ended(cuda, (uint64_t)(uintptr_t)context, &context_id))
                r = GPUMEM_E_NO_CONTEXT;
        if (r)
                return r;
        *ret_key = (struct stream_key){.context = (uint64_t)(uintptr_t)context, .id = id};
        *ret_context_id = context_id;
        return 0;
}

/* CU_STREAM_PER_THREAD means another stream in each thread, so the thread is the id. No other handle is so high. */
uint64_t stream_captured_id(void *stream)
{
        static _Atomic uint32_t n_threads;
        static _Thread_local uint32_t thread;

        if (stream != CU_STREAM_PER_THREAD)
                return (uint64_t)(uintptr_t)stream;
        if (!thread)
                thread = atomic_fetch_add(&n_threads, 1) + 1;
        return UINT64_MAX - thread;
}

int stream_identify_captured(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                             int *ret_ordinal)
{
        CUcontext context;
        int r = stream_context(cuda, stream, &context);

        return r ? r : identify(cuda, context, stream_captured_id(stream), ret_key, ret_ordinal);
}

int stream_synchronize(const struct cuda *cuda, void *stream)
{
        return CUDA_CALL(cuda, cuStreamSynchronize, stream);
}

int stream_synchronize_context(const struct cuda *cuda, uint64_t context)
{
        int r = context_run(cuda, context, synchronize_current, NULL);

        return r == GPUMEM_E_NO_CONTEXT ? 0 : r;
}

int stream_synchronize_contexts(const struct cuda *cuda, uint64_t context)
{
        CUcontext current;
        int r;

        r = CUDA_CALL(cuda, cuCtxGetCurrent, &current);
        if (!r && current)
                r = synchronize_current(cuda, NULL);
        if (!r && context && context != (uint64_t)(uintptr_t)current)
                r = stream_synchronize_context(cuda, context);
        return r;
}
