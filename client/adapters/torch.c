/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that PyTorch's pluggable allocator calls. */
#include <stdatomic.h>

#include "client/adapters/adapter.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/blocks/client_limit.h"
#include "driver/context.h"
#include "driver/stream.h"
#include "gpumem-adapters.h"
#include "gpumem.h"

/* Devices whose default streams are registered: a bit for each. */
static _Atomic uint64_t defaults;

/* Handles of default streams, by device, opened with the registration. Contexts live as long as the process. */
static _Atomic(struct gpumem_stream *) handles[64];

/* The handle, if the stream is the default one of the context that it was opened in. */
static struct gpumem_stream *handle_of(int device, void *stream)
{
        struct gpumem_stream *handle;
        uint64_t context;

        if (stream || device < 0 || device >= (int)ARRAY_SIZE(handles))
                return NULL;
        handle = atomic_load_explicit(&handles[device], memory_order_acquire);
        if (!handle || context_current(&handle->client->cuda, &context))
                return NULL;
        return context == handle->key.context ? handle : NULL;
}

/* Another device's context may be current. */
static void open_default(int device)
{
        struct gpumem_stream *handle;
        int current;

        if (device < 0 || device >= (int)ARRAY_SIZE(handles) ||
            gpumem_stream_open(NULL, NULL, &handle))
                return;
        if (context_device(&handle->client->cuda, &current) == 0 && current == device)
                atomic_store_explicit(&handles[device], handle, memory_order_release);
        else
                (void)gpumem_stream_close(handle);
}

/* PyTorch's main stream may still use what its other streams free. It can be registered when the device's context is
 * current, which PyTorch sees to before its first kernel, and not when it is initialised. */
static void register_default(int device)
{
        uint64_t bit = UINT64_C(1) << (device & 63);
        int r;

        if (atomic_load_explicit(&defaults, memory_order_relaxed) & bit ||
            atomic_fetch_or(&defaults, bit) & bit)
                return;
        r = gpumem_stream_register(NULL, NULL);
        if (r == GPUMEM_E_NO_CONTEXT || r == GPUMEM_E_CAPTURES)
                atomic_fetch_and(&defaults, ~bit);
        else if (r)
                adapter_count_failure();
        else
                open_default(device);
}

static int alloc(size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        struct gpumem_stream *handle = handle_of(device, stream);
        int r;

        if (handle && stream_handle_hit(handle, n_bytes, ret_pointer) == 0)
                return 0;
        r = adapter_alloc(n_bytes, device, stream, ret_pointer);
        if (r)
                return r;
        register_default(device);
        if (handle)
                stream_handle_note(handle);
        return 0;
}

/* PyTorch does not check the pointer, so a refusal must be thrown. */
void *gpumem_torch_alloc(size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;
        int r;

        if (!n_bytes)
                return NULL;
        r = alloc(n_bytes, device, stream, &pointer);
        if (r)
                adapter_throw(r, n_bytes, device, NULL);
        return pointer;
}

/* A MemPool checks the pointer, and tries again after it has released its cache. */
void *gpumem_torch_pool_alloc(size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;

        if (n_bytes && alloc(n_bytes, device, stream, &pointer))
                return NULL;
        return pointer;
}

/* As ncclMemAlloc makes its memory: for RDMA where the device has that. */
void *gpumem_torch_registered_alloc(size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;
        int r;

        if (!n_bytes)
                return NULL;
        r = adapter_alloc_with(GPUMEM_RDMA, n_bytes, device, stream, &pointer);
        if (r == GPUMEM_E_UNSUPPORTED)
                r = adapter_alloc_with(GPUMEM_REGISTERED, n_bytes, device, stream, &pointer);
        if (r)
                return NULL;
        register_default(device);
        return pointer;
}

void gpumem_torch_free(void *pointer, size_t n_bytes, int device, void *stream)
{
        struct gpumem_stream *handle = handle_of(device, stream);

        (void)n_bytes;
        if (pointer && (!handle || stream_handle_give(handle, pointer)))
                adapter_free(pointer, stream);
}

/* A capturing stream need not be recorded: its memory belongs to the graph, or lives as long as the graph is used. */
void gpumem_torch_record_stream(void *pointer, void *stream)
{
        int r = pointer ? gpumem_record_use(NULL, pointer, stream) : 0;

        if (r && !(r == GPUMEM_E_UNSUPPORTED && stream_is_created(stream)))
                adapter_count_failure();
}

void gpumem_torch_empty_cache(void)
{
        if (gpumem_flush(NULL, NULL))
                adapter_count_failure();
}

void gpumem_torch_init(int n_devices)
{
        (void)n_devices;
}

void *gpumem_torch_base(void *pointer, size_t *ret_n_bytes)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        if (gpumem_describe(NULL, pointer, &info))
                return pointer;
        if (ret_n_bytes)
                *ret_n_bytes = info.n_requested_bytes;
        return info.base;
}

void gpumem_torch_set_fraction(double fraction, int device)
{
        if (gpumem_set_memory_fraction(NULL, device, fraction))
                adapter_count_failure();
}
