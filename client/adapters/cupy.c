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
        /* A hit may record events that earlier calls could not. */
        python_lock_lend(&lock);
        r = adapter_hit(n_bytes, device, stream, ret_pointer);
        if (r)
                r = adapter_alloc_missed(n_bytes, device, stream, ret_pointer);
        /* CuPy's frees name no stream, and the stream is known to be alive only now. */
        if (!r && stream_is_created(stream) && client_enter(&client) == 0)
                client_record_frees(client, *ret_pointer, stream);
        python_lock_take_again(&lock);
        return r;
}

/* What C++ throws becomes Python's RuntimeError, unless an exception of Python's is pending: gpumem.cupy has CuPy's own
 * raised. Python without that module gets the RuntimeError. */
static void raise_in_python(size_t n_bytes, const char *text)
{
        const struct python *python = python_find();
        void *module, *nothing;

        if (!python || !python->is_initialized() || !python_holds_lock(python))
                return;
        module = python->module_import("gpumem.cupy");
        if (!module) {
                python->forget();
                return;
        }
        nothing = python->call(module, "_refuse", "Ks", (unsigned long long)n_bytes, text);
        if (nothing)
                python->unref(nothing);
        python->unref(module);
}

void *gpumem_cupy_alloc(void *param, size_t n_bytes, int device)
{
        void *pointer = NULL;
        int r;

        if (!n_bytes)
                return NULL;
        r = alloc(param, n_bytes, device, &pointer);
        if (r)
                adapter_throw(r, n_bytes, device, raise_in_python);
        return pointer;
}

void gpumem_cupy_free(void *param, void *pointer, int device)
{
        struct python_lock lock;

        (void)param;
        if (!pointer)
                return;
        python_lock_lend(&lock);
        if (adapter_give(pointer, device))
                adapter_free_in_order(pointer);
        python_lock_take_again(&lock);
}
