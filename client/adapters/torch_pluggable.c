/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that PyTorch's pluggable allocator calls. python/gpumem/torch/ sets them, and has an extension in C++
 * for what this interface lacks. PyTorch frees when Python drops a tensor, and has the GIL then, so calls that may wait
 * release it. */
#include <stdatomic.h>
#include <stdbool.h>

#include "client/adapters/adapter.h"
#include "client/adapters/python.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/blocks/client_limit.h"
#include "driver/context.h"
#include "driver/stream.h"
#include "gpumem-adapters.h"
#include "gpumem.h"

/* Devices whose default streams are registered: a bit for each. */
static _Atomic uint64_t defaults;

/* Do these functions replace PyTorch's own allocator? That one calls those of a MemPool with a lock held, for which another
 * thread may wait with the GIL. */
static atomic_bool is_replaced;

static void note_replaced(void)
{
        if (!atomic_load_explicit(&is_replaced, memory_order_relaxed))
                atomic_store(&is_replaced, true);
}

static void lend(struct python_lock *lock)
{
        if (atomic_load_explicit(&is_replaced, memory_order_relaxed))
                python_lock_lend(lock);
        else
                *lock = (struct python_lock){.thread = NULL};
}

/* An allocation is made with the primary context current only for its own time. */
static bool is_current(int device)
{
        const struct gpumem_client *client = default_client_present();
        const struct cuda *cuda = client ? client_cuda(client) : NULL;
        int current;

        return cuda && context_device(cuda, &current) == 0 && current == device;
}

/* PyTorch's main stream may still use what its other streams free. It can be registered when the device's context is
 * current, which PyTorch sees to before its first kernel, and not when it is initialised. */
static void register_default(int device)
{
        uint64_t bit = UINT64_C(1) << (device & 63);
        int r;

        if (atomic_load_explicit(&defaults, memory_order_relaxed) & bit || !is_current(device) ||
            atomic_fetch_or(&defaults, bit) & bit)
                return;
        r = gpumem_stream_register(NULL, NULL);
        if (r == GPUMEM_E_NO_CONTEXT || r == GPUMEM_E_CAPTURES)
                atomic_fetch_and(&defaults, ~bit);
        else if (r)
                adapter_count_failure();
}

static int alloc(uint32_t flags, size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        struct python_lock lock;
        int r;

        lend(&lock);
        r = flags ? adapter_alloc_with(flags, n_bytes, device, stream, ret_pointer)
                  : adapter_alloc(n_bytes, device, stream, ret_pointer);
        if (!r)
                register_default(device);
        python_lock_take_again(&lock);
        return r;
}

/* PyTorch does not check the pointer, so a refusal must be thrown. */
void *gpumem_torch_alloc(size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;
        int r;

        note_replaced();
        if (!n_bytes)
                return NULL;
        r = alloc(0, n_bytes, device, stream, &pointer);
        if (r)
                adapter_throw(r, n_bytes, device, NULL);
        return pointer;
}

void *gpumem_torch_own_alloc(uint32_t flags, size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;

        if (n_bytes && alloc(flags, n_bytes, device, stream, &pointer))
                return NULL;
        return pointer;
}

/* A MemPool checks the pointer, and tries again after it has released its cache. */
void *gpumem_torch_pool_alloc(size_t n_bytes, int device, void *stream)
{
        return gpumem_torch_own_alloc(0, n_bytes, device, stream);
}

/* As ncclMemAlloc makes its memory: for RDMA where the device has that. */
void *gpumem_torch_registered_alloc(size_t n_bytes, int device, void *stream)
{
        void *pointer = NULL;
        int r;

        if (!n_bytes)
                return NULL;
        r = alloc(GPUMEM_RDMA, n_bytes, device, stream, &pointer);
        if (r == GPUMEM_E_UNSUPPORTED)
                r = alloc(GPUMEM_REGISTERED, n_bytes, device, stream, &pointer);
        return r ? NULL : pointer;
}

void gpumem_torch_free(void *pointer, size_t n_bytes, int device, void *stream)
{
        struct python_lock lock;

        (void)n_bytes;
        if (!pointer)
                return;
        lend(&lock);
        adapter_free(pointer, device, stream);
        python_lock_take_again(&lock);
}

/* A capturing stream need not be recorded: its memory belongs to the graph, or lives as long as the graph is used. */
void gpumem_torch_record_stream(void *pointer, void *stream)
{
        struct python_lock lock;
        int r;

        lend(&lock);
        r = pointer ? gpumem_record_use(NULL, pointer, stream) : 0;
        python_lock_take_again(&lock);
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
        note_replaced();
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
