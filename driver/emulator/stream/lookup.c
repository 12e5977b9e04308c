/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/lookup.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/stream.h"

/* A thread's own default streams, one a context; the list ends with the thread. */
struct own_stream {
        struct own_stream *next;
        struct stream *stream;
        uint64_t context_id;
};

static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

/* Its capture can no longer be ended. */
static void own_stream_close(struct stream *take_stream)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);

        emulator_lock();
        capture_forget(take_stream, &dead);
        emulator_unlock();
        stream_close(take_stream);
        user_destroy(&dead);
}

static void own_streams_free(void *list)
{
        struct own_stream *own = list;

        while (own) {
                struct own_stream *next = own->next;

                if (emulator_is_live())
                        own_stream_close(own->stream);
                free(own);
                own = next;
        }
}

static void own_key_new(void)
{
        (void)pthread_key_create(&own_key, own_streams_free);
}

static CUresult own_stream_get(struct context *context, struct stream **ret_stream)
{
        struct own_stream *own;
        CUresult r;

        (void)pthread_once(&own_once, own_key_new);
        for (own = pthread_getspecific(own_key); own; own = own->next) {
                if (own->context_id == context->id) {
                        *ret_stream = stream_ref(own->stream);
                        return CUDA_SUCCESS;
                }
        }
        own = calloc(1, sizeof(*own));
        if (!own)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = stream_new(context, STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0, &own->stream);
        if (r != CUDA_SUCCESS) {
                free(own);
                return r;
        }
        own->context_id = context->id;
        own->next = pthread_getspecific(own_key);
        (void)pthread_setspecific(own_key, own);
        *ret_stream = stream_ref(own->stream);
        return CUDA_SUCCESS;
}

static CUresult default_stream_get(CUstream handle, struct stream **ret_stream)
{
        struct context *context;
        CUresult r;

        r = context_current(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (handle == CU_STREAM_PER_THREAD)
                return own_stream_get(context, ret_stream);
        if (!context->legacy) {
                r = stream_new(context, STREAM_LEGACY, CU_STREAM_DEFAULT, 0, &context->legacy);
                if (r != CUDA_SUCCESS)
                        return r;
                __atomic_store_n(&context->legacy_id, context->legacy->id, __ATOMIC_RELEASE);
        }
        *ret_stream = stream_ref(context->legacy);
        return CUDA_SUCCESS;
}

bool lookup_default_identity(CUstream handle, struct identity *ret_identity)
{
        if (handle == CU_STREAM_PER_THREAD)
                return false;
        if (context_current(&ret_identity->context) != CUDA_SUCCESS)
                return false;
        ret_identity->id = __atomic_load_n(&ret_identity->context->legacy_id, __ATOMIC_ACQUIRE);
        ret_identity->status = CU_STREAM_CAPTURE_STATUS_NONE;
        return ret_identity->id != 0 &&
               !__atomic_load_n(&ret_identity->context->n_capturing, __ATOMIC_ACQUIRE);
}

static CUresult lookup_locked(CUstream handle, struct stream **ret_stream)
{
        struct stream *stream;

        if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
                return default_stream_get(handle, ret_stream);
        stream = handle_find(HANDLE_STREAM, (uintptr_t)handle);
        /* The H200's driver crashes. */
        if (!stream && handle_has_ended(HANDLE_STREAM, (uintptr_t)handle))
                emulator_end("a stream that was destroyed is used");
        if (!stream)
                return CUDA_ERROR_INVALID_HANDLE;
        *ret_stream = stream_ref(stream);
        return CUDA_SUCCESS;
}

CUresult lookup_stream(CUstream handle, struct stream **ret_stream)
{
        CUresult r;

        emulator_lock();
        r = lookup_locked(handle, ret_stream);
        emulator_unlock();
        return r;
}

CUresult lookup_usable_stream(CUstream handle, struct stream **ret_stream)
{
        struct stream *stream;
        CUresult r = lookup_stream(handle, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        r = context_failure(stream->context);
        if (r == CUDA_SUCCESS)
                *ret_stream = stream;
        else
                (void)stream_unref(stream);
        return r;
}
