/* SPDX-License-Identifier: Apache-2.0 */
#include "client/adapters/adapter.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/size.h"
#include "client/adapters/default_streams.h"
#include "client/adapters/peers.h"
#include "client/pool/stream_handles.h"
#include "gpumem-adapters.h"
#include "gpumem.h"

#define WAIT_MS_DEFAULT 10000
#define TEXT_MAX        (GPUMEM_TEXT_BYTES + 160)

static _Atomic uint32_t wait_ms = WAIT_MS_DEFAULT;
static _Atomic uint64_t n_failures;

void gpumem_adapters_set_wait_ms(uint32_t ms)
{
        atomic_store(&wait_ms, ms);
}

uint64_t gpumem_adapters_failures(void)
{
        return atomic_load(&n_failures);
}

void adapter_count_failure(void)
{
        (void)atomic_fetch_add(&n_failures, 1);
}

/* A framework's thread may have no context, or that of another device. Then the device's primary context is used, as
 * frameworks do. */
static bool wants_context(int r)
{
        return r == GPUMEM_E_NO_CONTEXT || r == GPUMEM_E_WRONG_STREAM;
}

int adapter_alloc_with(uint32_t flags, size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = GPUMEM_DEVICE,
                .place = device,
                .stream = stream,
                .n_bytes = n_bytes,
                .flags = GPUMEM_AT_PLACE | flags,
                .wait_ms = atomic_load_explicit(&wait_ms, memory_order_relaxed)};
        int r = gpumem_alloc(NULL, &request, ret_pointer);

        if (wants_context(r)) {
                request.flags |= GPUMEM_PRIMARY;
                r = gpumem_alloc(NULL, &request, ret_pointer);
        }
        if (!r && peers_note(device))
                adapter_count_failure();
        return r;
}

int adapter_hit(size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        struct gpumem_stream *handle = default_streams_find(device, stream);

        return handle ? stream_handle_hit(handle, n_bytes, ret_pointer) : GPUMEM_E_REFUSED;
}

int adapter_alloc_missed(size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        int r = adapter_alloc_with(0, n_bytes, device, stream, ret_pointer);

        if (!r)
                default_streams_note(device, stream);
        return r;
}

int adapter_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        if (adapter_hit(n_bytes, device, stream, ret_pointer) == 0)
                return 0;
        return adapter_alloc_missed(n_bytes, device, stream, ret_pointer);
}

int adapter_give(void *pointer, int device)
{
        struct gpumem_stream *handle = default_streams_of_device(device);

        return handle ? stream_handle_give(handle, pointer) : GPUMEM_E_REFUSED;
}

void adapter_free_in_order(void *pointer)
{
        if (gpumem_free_in_order(NULL, pointer))
                adapter_count_failure();
}

void adapter_free(void *pointer, int device, void *stream)
{
        struct gpumem_stream *handle = default_streams_find(device, stream);
        int r;

        if (handle && stream_handle_give(handle, pointer) == 0)
                return;
        r = gpumem_free(NULL, pointer, stream);
        if (r == GPUMEM_E_NOT_OURS || r == GPUMEM_E_FORKED)
                adapter_count_failure();
        else if (r)
                adapter_free_in_order(pointer);
}

int gpumem_device_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer)
{
        return adapter_alloc(n_bytes, device, stream, ret_pointer);
}

/* Frameworks and programs recognize a lack of memory by the first words of the text. */
static bool is_out_of_memory(int code)
{
        return code == GPUMEM_E_REFUSED || code == GPUMEM_E_LIMIT || code == GPUMEM_E_TOO_LARGE ||
               code == GPUMEM_E_DEVICE_FULL || code == GPUMEM_E_TIMED_OUT;
}

static void describe(int code, size_t n_bytes, int device, char text[static TEXT_MAX])
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        char size[SIZE_TEXT_MAX];
        const char *why = gpumem_strerror(code);

        if (gpumem_last_refusal(NULL, &refusal) == 0 && refusal.code == code)
                why = refusal.text;
        (void)snprintf(text, TEXT_MAX, "%s Tried to allocate %s on GPU %d from gpumemd: %s",
                       is_out_of_memory(code) ? "CUDA out of memory." : "gpumem: no memory.",
                       size_format(n_bytes, size), device, why);
}

/* libstdc++ exports the function that throws, and a C++ framework has loaded it. */
void adapter_throw(int code, size_t n_bytes, int device, adapter_tell *tell)
{
        static _Thread_local char text[TEXT_MAX];
        void (*throw_runtime_error)(const char *);
        void *library, *symbol = dlsym(RTLD_DEFAULT, "_ZSt21__throw_runtime_errorPKc");

        library = symbol ? NULL : dlopen("libstdc++.so.6", RTLD_NOW);
        if (library)
                symbol = dlsym(library, "_ZSt21__throw_runtime_errorPKc");
        if (!symbol)
                return;
        describe(code, n_bytes, device, text);
        if (tell && is_out_of_memory(code))
                tell(n_bytes, text);
        *(void **)&throw_runtime_error = symbol;
        throw_runtime_error(text);
}
