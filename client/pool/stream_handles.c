/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/stream_handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void stream_handles_init(struct stream_handles *handles)
{
        *handles = (struct stream_handles){.open = NULL};
        TAILQ_INIT(&handles->closed);
        pthread_mutex_init(&handles->lock, NULL);
}

void stream_handles_deinit(struct stream_handles *handles)
{
        struct gpumem_stream *handle, *next;

        HASH_ITER(hh, handles->open, handle, next)
        {
                HASH_DEL(handles->open, handle);
                free(handle);
        }
        while ((handle = TAILQ_FIRST(&handles->closed))) {
                TAILQ_REMOVE(&handles->closed, handle, link);
                free(handle);
        }
        pthread_mutex_destroy(&handles->lock);
}

/* The caller has the lock. */
static struct gpumem_stream *find(struct stream_handles *handles, const struct stream_key *key)
{
        struct gpumem_stream *handle;

        HASH_FIND(hh, handles->open, key, sizeof(*key), handle);
        return handle;
}

static struct gpumem_stream *new_record(struct stream_handles *handles)
{
        struct gpumem_stream *handle = TAILQ_FIRST(&handles->closed);

        if (handles->n_closed < STREAM_HANDLES_KEPT)
                return aligned_alloc(_Alignof(struct gpumem_stream), sizeof(*handle));
        TAILQ_REMOVE(&handles->closed, handle, link);
        handles->n_closed--;
        return handle;
}

static int add(struct stream_handles *handles, struct gpumem_client *client, void *stream,
               const struct stream_key *key, struct gpumem_stream **ret_handle)
{
        struct gpumem_stream *handle = new_record(handles);

        if (!handle)
                return -ENOMEM;
        memset(handle, 0, sizeof(*handle));
        handle->mark = (struct stream_mark){.scope = stream_is_created(stream) ? 0 : key->context,
                                            .id = key->id};
        handle->stream = stream;
        handle->client = client;
        handle->key = *key;
        HASH_ADD(hh, handles->open, key, sizeof(handle->key), handle);
        if (!handle->hh.tbl) {
                free(handle);
                return -ENOMEM;
        }
        atomic_fetch_add(&handles->n_open, 1);
        *ret_handle = handle;
        return 0;
}

int stream_handles_open(struct stream_handles *handles, struct gpumem_client *client, void *stream,
                        const struct stream_key *key, struct gpumem_stream **ret_handle)
{
        struct gpumem_stream *handle;
        int r = 0;

        pthread_mutex_lock(&handles->lock);
        handle = find(handles, key);
        if (!handle)
                r = add(handles, client, stream, key, &handle);
        if (!r) {
                atomic_fetch_add(&handle->n_open, 1);
                *ret_handle = handle;
        }
        pthread_mutex_unlock(&handles->lock);
        return r;
}

/* The caller has the lock. */
static void end(struct stream_handles *handles, struct gpumem_stream *handle,
                const struct stack *by)
{
        atomic_store(&handle->heap, NULL);
        if (by)
                handle->closed_by = *by;
        HASH_DEL(handles->open, handle);
        atomic_fetch_sub(&handles->n_open, 1);
        TAILQ_INSERT_TAIL(&handles->closed, handle, link);
        handles->n_closed++;
}

int stream_handles_close(struct stream_handles *handles, struct gpumem_stream *handle,
                         const struct stack *by, uint32_t *ret_n_open)
{
        int r = 0;

        pthread_mutex_lock(&handles->lock);
        if (!atomic_load(&handle->n_open))
                r = GPUMEM_E_CLOSED;
        else
                *ret_n_open = atomic_fetch_sub(&handle->n_open, 1) - 1;
        if (!r && !*ret_n_open)
                end(handles, handle, by);
        pthread_mutex_unlock(&handles->lock);
        return r;
}

bool stream_handles_find(struct stream_handles *handles, const struct stream_key *key,
                         void **ret_stream)
{
        const struct gpumem_stream *handle;

        if (!atomic_load_explicit(&handles->n_open, memory_order_relaxed))
                return false;
        pthread_mutex_lock(&handles->lock);
        handle = find(handles, key);
        if (handle)
                *ret_stream = handle->stream;
        pthread_mutex_unlock(&handles->lock);
        return handle;
}

void stream_handles_forget(struct stream_handles *handles, const struct stream_key *key)
{
        struct gpumem_stream *handle;

        pthread_mutex_lock(&handles->lock);
        handle = find(handles, key);
        if (handle)
                atomic_store(&handle->heap, NULL);
        pthread_mutex_unlock(&handles->lock);
}
