/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-adapters.h - functions of libgpumem-client that frameworks call through function pointers
 *
 * Their arguments are those of the frameworks' own interfaces, so that Python code can pass their addresses and needs
 * no compiler. All of them use the default client (see gpumem.h), and may be called from any thread, with any context
 * current or none: a default stream is then that of the device's primary context.
 *
 * `gpumem.torch` and `gpumem.cupy` of the Python package install them. By hand, in Python:
 *     library = ctypes.CDLL("libgpumem-client.so.0")
 *     address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
 *     allocator = torch._C._cuda_customAllocator(address(library.gpumem_torch_alloc),
 *                                                address(library.gpumem_torch_free))
 *     torch._C._cuda_changeCurrentAllocator(allocator) */
#ifndef GPUMEM_ADAPTERS_H
#define GPUMEM_ADAPTERS_H

#include "gpumem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How long the allocations of this file wait for memory that others hold; 10,000 ms unless this is called. */
GPUMEM_API void gpumem_adapters_set_wait_ms(uint32_t wait_ms);

/* Calls of this file that failed and had no way to say so, ever: frees, for the most part. 0 in a sound program. */
GPUMEM_API uint64_t gpumem_adapters_failures(void);

/* Device memory on CUDA device `device`, for use in the order of `stream`. Errors: as gpumem_alloc. */
GPUMEM_API int gpumem_device_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer);

/* PyTorch's pluggable allocator for a whole process. NULL for 0 bytes. What is refused is thrown as a C++
 * std::runtime_error, since PyTorch looks at no pointer. Its text begins with "CUDA out of memory." where memory is
 * lacking, and ends with the refusal's. C code, and Python by ctypes, cannot catch it, and must not call this.
 * Without libstdc++ in the process: NULL. */
GPUMEM_API void *gpumem_torch_alloc(size_t n_bytes, int device, void *stream);

/* The same for a torch.cuda.MemPool, over which PyTorch caches by itself: NULL for what is refused. */
GPUMEM_API void *gpumem_torch_pool_alloc(size_t n_bytes, int device, void *stream);

/* Frees what these two gave, in the order of `stream`. */
GPUMEM_API void gpumem_torch_free(void *pointer, size_t n_bytes, int device, void *stream);

/* Tensor.record_stream, torch.cuda.empty_cache, the allocator's start, and the start of the allocation that a
 * pointer lies in, with its size. */
GPUMEM_API void gpumem_torch_record_stream(void *pointer, void *stream);
GPUMEM_API void gpumem_torch_empty_cache(void);
GPUMEM_API void gpumem_torch_init(int n_devices);
GPUMEM_API void *gpumem_torch_base(void *pointer, size_t *ret_n_bytes);

/* torch.cuda.set_per_process_memory_fraction: what the client may reserve on the device, as a part of its memory. */
GPUMEM_API void gpumem_torch_set_fraction(double fraction, int device);

/* CuPy's CFunctionAllocator(param, alloc, free, owner). `param` is NULL, for the default stream, or CuPy's function
 * that tells the thread's current stream: intptr_t (*)(void). What is refused is thrown as by gpumem_torch_alloc.
 * The free is gpumem_free_in_order. */
GPUMEM_API void *gpumem_cupy_alloc(void *param, size_t n_bytes, int device);
GPUMEM_API void gpumem_cupy_free(void *param, void *pointer, int device);

/* An element's type as DLPack has it: code 0 is signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool. */
struct gpumem_dlpack_type {
        uint8_t code;
        uint8_t bits;   /* a multiple of 8 */
        uint16_t lanes; /* 1 for plain numbers */
};

struct DLManagedTensorVersioned; /* of <dlpack/dlpack.h> 1.0 */

/* An allocation, device or pinned, as a DLPack 1.0 tensor with so many dimensions, in C order. `shape` counts
 * elements, and is copied. The tensor owns the allocation: its deleter is gpumem_free_later, since other
 * streams may have used it; of any thread, before gpumem_disconnect.
 *     struct DLManagedTensorVersioned *tensor;
 *     const int64_t shape[] = {rows, columns};
 *     const struct gpumem_dlpack_type f32 = {.code = 2, .bits = 32, .lanes = 1};
 *     r = gpumem_to_dlpack(NULL, pointer, 2, shape, &f32, &tensor);
 * Errors, with which the allocation is still the caller's: GPUMEM_E_NOT_OURS, _ATTACHED, _BAD_REQUEST (a type that
 * is none, more than 64 dimensions, more bytes than were asked for), _FORKED, -ENOMEM. */
GPUMEM_API int gpumem_to_dlpack(struct gpumem_client *client, void *pointer, int32_t n_dims,
                                const int64_t *shape, const struct gpumem_dlpack_type *type,
                                struct DLManagedTensorVersioned **ret_tensor);

/* A DLPack capsule of Python's over memory that the Python object `owner` has: "dltensor_versioned", or without
 * is_versioned "dltensor". `tensor` is a DLTensor with shape and strides, and is copied with both. The capsule, and its
 * consumer, hold a reference to `owner`. The caller holds the GIL. The deleter may be called by any thread; it does
 * nothing after the interpreter's end. NULL: with Python's MemoryError, or the process has no Python. */
GPUMEM_API void *gpumem_python_capsule(void *owner, const void *tensor, int is_versioned);

#ifdef __cplusplus
}
#endif

#endif
