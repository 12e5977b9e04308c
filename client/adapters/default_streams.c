/* SPDX-License-Identifier: Apache-2.0 */
#include "client/adapters/default_streams.h"

#include <stdatomic.h>
#include <stdint.h>

#include "client/api/client.h"
#include "driver/context.h"
#include "gpumem.h"

#define N_DEVICES_MAX 64

static _Atomic(struct gpumem_stream *) handles[N_DEVICES_MAX];

/* Devices for which a thread opens a handle, or has: a bit each. */
static _Atomic uint64_t opening;

struct gpumem_stream *default_streams_of_device(int device)
{
        if (device < 0 || device >= N_DEVICES_MAX)
                return NULL;
        return atomic_load_explicit(&handles[device], memory_order_acquire);
}

/* Other contexts of the device have default streams of their own. */
struct gpumem_stream *default_streams_find(int device, void *stream)
{
        struct gpumem_stream *handle = stream ? NULL : default_streams_of_device(device);
        uint64_t context;

        if (!handle || context_current(&handle->client->cuda, &context))
                return NULL;
        return context == handle->key.context ? handle : NULL;
}

/* Another device's context may be current, or none. */
static struct gpumem_stream *open_default(int device)
{
        struct gpumem_stream *handle;
        int current;

        if (gpumem_stream_open(NULL, NULL, &handle))
                return NULL;
        if (context_device(&handle->client->cuda, &current) == 0 && current == device)
                return handle;
        (void)gpumem_stream_close(handle);
        return NULL;
}

void default_streams_note(int device, void *stream)
{
        struct gpumem_stream *handle = default_streams_find(device, stream);
        uint64_t bit;

        if (handle) {
                stream_handle_note(handle);
                return;
        }
        if (stream || device < 0 || device >= N_DEVICES_MAX)
                return;
        bit = UINT64_C(1) << device;
        if (atomic_load_explicit(&opening, memory_order_relaxed) & bit ||
            atomic_fetch_or(&opening, bit) & bit)
                return;
        handle = open_default(device);
        if (handle)
                atomic_store_explicit(&handles[device], handle, memory_order_release);
        else
                (void)atomic_fetch_and(&opening, ~bit);
}
