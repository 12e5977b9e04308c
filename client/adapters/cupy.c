/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that CuPy's CFunctionAllocator calls. CuPy passes no stream: `stream_function`, which is CuPy's,
 * returns the thread's. CuPy frees whenever Python drops an array, on any thread, perhaps after the stream is
 * destroyed. It holds the GIL while it calls, so calls that may wait release it. */
#include "client/adapters/adapter.h"
#include "client/adapters/python.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "driver/stream.h"
#include "gpumem-adapters.h"

typedef intptr_t stream_function(void);

static int alloc(void *param, size_t n_bytes, int device, void **ret_pointer)
{
        stream_function *function;
        struct gpumem_client *client = NULL;
        struct python_lock lock;
        void *stream = NULL;
        int r;

        *(void **)&function = param;
        if (function)
                stream = (void *)function();
        python_lock_lend(&lock);
        r = adapter_alloc(n_bytes, device, stream, ret_pointer);
        python_lock_take_again(&lock);
        /* CuPy's frees name no stream, and the stream is known to be alive only now. */
        if (!r && stream_is_created(stream) && client_enter(&client) == 0)
                client_record_frees(client, *ret_pointer, stream);
        return r;
}

void *gpumem_cupy_alloc(void *param, size_t n_bytes, int device)
{
        void *pointer = NULL;
        int r;

        if (!n_bytes)
                return NULL;
        r = alloc(param, n_bytes, device, &pointer);
        if (r)
                adapter_throw(r, n_bytes, device);
        return pointer;
}

void gpumem_cupy_free(void *param, void *pointer, int device)
{
        struct python_lock lock;

        (void)param;
        (void)device;
        if (!pointer)
                return;
        python_lock_lend(&lock);
        adapter_free_in_order(pointer);
        python_lock_take_again(&lock);
}
