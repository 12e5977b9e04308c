/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-adapters.h - functions of libgpumem-client that frameworks call through function pointers */
#ifndef GPUMEM_ADAPTERS_H
#define GPUMEM_ADAPTERS_H

#include "gpumem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gpumem-adapters(3): functions that PyTorch, CuPy and DLPack call
 *
 * These functions have the arguments of the frameworks' own interfaces. Python code can pass their addresses and needs
 * no compiler. All that allocate or free use the default client, except gpumem_to_dlpack. Any thread may call them,
 * with any current context or with none. A default stream is then that of the device's primary context.
 * The modules gpumem.torch and gpumem.cupy of the Python package install them. By hand, in Python:
 *     library = ctypes.CDLL("libgpumem-client.so.0")
 *     address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
 *     allocator = torch._C._cuda_customAllocator(address(library.gpumem_torch_alloc),
 *                                                address(library.gpumem_torch_free))
 *     torch._C._cuda_changeCurrentAllocator(allocator) */

/* Sets how long the allocations of this file wait for memory that others hold, in ms. It is 10,000 before the first
 * call. */
GPUMEM_API void gpumem_adapters_set_wait_ms(uint32_t wait_ms);

/* Returns how many calls of this file failed without a way to report it, since the process began. Most are frees. A
 * correct program has 0. */
GPUMEM_API uint64_t gpumem_adapters_failures(void);

/* Allocates n_bytes of device memory on CUDA device `device`, for use in the order of `stream`. The caller frees it
 * with any function that frees. Errors: as gpumem_alloc, and as gpumem_connect. */
GPUMEM_API int gpumem_device_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer);

/* Allocates device memory as PyTorch's pluggable allocator for a whole process. It returns NULL for 0 bytes. PyTorch
 * does not check the pointer, so a refusal is thrown as a C++ std::runtime_error. The text begins with "CUDA out of
 * memory." if memory is lacking, and ends with the text of the refusal. C code, and Python by ctypes, cannot catch it,
 * and must not call this function. In a process without libstdc++ it returns NULL. The first allocation on a device
 * registers its default stream, as soon as the device's context is current. */
GPUMEM_API void *gpumem_torch_alloc(size_t n_bytes, int device, void *stream);

/* Allocates device memory for a torch.cuda.MemPool, in which PyTorch caches by itself. It returns NULL for 0 bytes, and
 * for a refusal. */
GPUMEM_API void *gpumem_torch_pool_alloc(size_t n_bytes, int device, void *stream);

/* gpumem_torch_pool_alloc with flags of gpumem_alloc, such as GPUMEM_SHAREABLE. */
GPUMEM_API void *gpumem_torch_own_alloc(uint32_t flags, size_t n_bytes, int device, void *stream);

/* gpumem_torch_pool_alloc with GPUMEM_RDMA, or GPUMEM_REGISTERED where the device has no GPUDirect RDMA: for pools
 * whose memory NCCL registers. Streams that capture get none. */
GPUMEM_API void *gpumem_torch_registered_alloc(size_t n_bytes, int device, void *stream);

/* Frees memory of these functions in the order of `stream`. NULL pointers are legal. */
GPUMEM_API void gpumem_torch_free(void *pointer, size_t n_bytes, int device, void *stream);

/* Serve Tensor.record_stream (gpumem_record_use), torch.cuda.empty_cache (gpumem_flush) and the allocator's start.
 * From that on, or from the first gpumem_torch_alloc, the functions that may wait release Python's GIL meanwhile; those of
 * pools alone keep it, since PyTorch calls for them with a lock held. gpumem_torch_base returns the start of the
 * allocation that contains `pointer`, and sets
 * *ret_n_bytes to its size unless `ret_n_bytes` is NULL. If the memory is not the client's, it returns `pointer`. */
GPUMEM_API void gpumem_torch_record_stream(void *pointer, void *stream);
GPUMEM_API void gpumem_torch_empty_cache(void);
GPUMEM_API void gpumem_torch_init(int n_devices);
GPUMEM_API void *gpumem_torch_base(void *pointer, size_t *ret_n_bytes);

/* Serves torch.cuda.set_per_process_memory_fraction: limits what the client may reserve on the device, to a part of its
 * memory from 0 to 1. */
GPUMEM_API void gpumem_torch_set_fraction(double fraction, int device);

/* Serve CuPy's CFunctionAllocator(param, alloc, free, owner). `param` is NULL for the default stream, or CuPy's
 * function that returns the thread's current stream: intptr_t (*)(void). gpumem_cupy_alloc returns NULL for 0 bytes,
 * and throws a refusal as gpumem_torch_alloc does. Where the Python module gpumem.cupy can be imported, a lack of
 * memory leaves CuPy's OutOfMemoryError pending in Python, which Cython prefers. gpumem_cupy_free is
 * gpumem_free_in_order. */
GPUMEM_API void *gpumem_cupy_alloc(void *param, size_t n_bytes, int device);
GPUMEM_API void gpumem_cupy_free(void *param, void *pointer, int device);

/* The type of an element, as DLPack has it. */
struct gpumem_dlpack_type {
        uint8_t code;   /* 0: signed, 1: unsigned, 2: float, 4: bfloat, 5: complex, 6: bool */
        uint8_t bits;   /* a multiple of 8 */
        uint16_t lanes; /* 1 for plain numbers */
};

struct DLManagedTensorVersioned; /* of <dlpack/dlpack.h> 1.0 */

/* Makes a DLPack 1.0 tensor of an allocation, device or pinned, in C order. `shape` has n_dims numbers of elements,
 * which the call copies. The tensor owns the allocation. Its deleter is gpumem_free_later, since other streams may have
 * used the memory. Any thread may call the deleter, before gpumem_disconnect.
 *     struct DLManagedTensorVersioned *tensor;
 *     const int64_t shape[] = {rows, columns};
 *     const struct gpumem_dlpack_type f32 = {.code = 2, .bits = 32, .lanes = 1};
 *     r = gpumem_to_dlpack(NULL, pointer, 2, shape, &f32, &tensor);
 * Errors, with which the caller still owns the allocation: GPUMEM_E_NOT_OURS (`pointer` is not the start of an
 * allocation of this client), _ATTACHED, _BAD_REQUEST (an invalid type, more than 64 dimensions, more bytes than were
 * requested), _FORKED, -ENOMEM. */
GPUMEM_API int gpumem_to_dlpack(struct gpumem_client *client, void *pointer, int32_t n_dims,
                                const int64_t *shape, const struct gpumem_dlpack_type *type,
                                struct DLManagedTensorVersioned **ret_tensor);

/* Makes a DLPack capsule of Python for memory of the Python object `owner`. Its name is "dltensor_versioned", or
 * "dltensor" if is_versioned is 0. `tensor` is a DLTensor with shape and strides; the call copies all of it. The
 * capsule and its consumer hold a reference to `owner`. The caller holds the GIL. Any thread may call the deleter.
 * After the interpreter's end the deleter does nothing. The call returns NULL with Python's MemoryError, or if the
 * process has no Python. */
GPUMEM_API void *gpumem_python_capsule(void *owner, const void *tensor, int is_versioned);

/* Returns a new reference to a function of Python, which costs less to call than one of ctypes. NULL: the process has
 * no Python, or the name is another one, with Python's TypeError. The caller holds the GIL, which calls release if they
 * wait.
 *     "alloc"  alloc(n_bytes, device, stream): gpumem_device_alloc; 0 for 0 bytes. The address, or what is below 4096:
 *              the result that is not 0
 *     "free"   free(address, stream): the result of gpumem_free */
GPUMEM_API void *gpumem_python_function(const char *name);

#ifdef __cplusplus
}
#endif

#endif
