/* gpumem.h - GPU and pinned host memory from one owner per node
 *
 * gpumemd owns all cached device memory and all pinned host memory of a machine; this library
 * leases blocks of it over a Unix socket, maps them into the process and cuts allocations out of
 * them. A cut needs no message and no system call.
 *
 * Results   0 is success. Positive is an outcome to handle, GPUMEM_E_*. Negative is -errno: a
 *           fault of the system or of the driver. gpumem_strerror() names both. Outputs are last,
 *           named ret_*, and untouched unless the result is 0.
 * Threads   Every function may be called from any thread.
 * Sizes     Bytes, named n_bytes.
 * Ownership Memory from gpumem_alloc is the caller's until gpumem_free, also when the daemon goes
 *           away. A block whose process ends is never handed to anybody while GPU work may still
 *           use it.
 * CUDA      Device memory needs a current context; the library makes none. It reaches the driver
 *           with dlopen (libcuda.so.1 or GPUMEM_CUDA_LIBRARY); <cuda.h> is not needed here. No CUDA
 *           function is called from a destructor or at exit. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API __attribute__((visibility("default")))

enum gpumem_error {
        GPUMEM_OK = 0,
#define GPUMEM_ERROR(name, code, text) GPUMEM_E_##name = code,
#include "gpumem-errors.def"
#undef GPUMEM_ERROR
};

/* One connection to the daemon, with the memory that is held through it. */
struct gpumem_client;

/* Leave a field 0 for its default. Set struct_size to sizeof(struct gpumem_options). */
struct gpumem_options {
        size_t struct_size;
        const char *socket_path;  /* default: GPUMEM_SOCKET, /run/gpumemd/gpumemd.sock, then
                                   * $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock */
        const char *cuda_library; /* default: GPUMEM_CUDA_LIBRARY, then libcuda.so.1 */
        const char *program;      /* name shown to administrators; default: the process's own */
};

enum gpumem_kind {
        GPUMEM_DEVICE = 1, /* device memory of one GPU */
        GPUMEM_PINNED = 2, /* host memory, locked and known to the driver */
};

#define GPUMEM_NEAREST (-1)

/* Leave a field 0 for its default. Set struct_size to sizeof(struct gpumem_request). */
struct gpumem_request {
        size_t struct_size;
        enum gpumem_kind kind;
        int32_t place;    /* device: CUDA ordinal in this process, or GPUMEM_NEAREST for the current
                           * context's; pinned: NUMA node, or GPUMEM_NEAREST for the one next to the
                           * current context's device, without a context next to the calling CPU */
        void *stream;     /* CUstream or cudaStream_t that will use the memory; NULL: the default */
        uint64_t n_bytes; /* at least 1 */
        uint32_t flags;   /* none yet: 0 */
        uint32_t wait_ms; /* how long to wait for memory that others hold; 0: not at all */
};

/* Connects to the daemon; a process needs one client only. With no CUDA driver on the machine the
 * client serves pinned memory.
 * Errors: GPUMEM_E_DISCONNECTED, GPUMEM_E_VERSION, GPUMEM_E_DENIED, GPUMEM_E_TOO_MANY,
 * -EINVAL (struct_size), other -errno. `options` may be NULL. */
GPUMEM_API int gpumem_connect(const struct gpumem_options *options,
                              struct gpumem_client **ret_client);

/* Gives everything back that is empty, unmaps the rest and ends the connection. Memory that the
 * application still uses becomes invalid; its GPU work must be over. NULL is legal. */
GPUMEM_API void gpumem_disconnect(struct gpumem_client *client);

/* Memory for use in `stream`'s order. Aligned to 512 bytes or more; contents undefined. Bytes of
 * an earlier allocation of the same tenant may be in it, never those of another tenant.
 * Pinned memory needs no context and no driver: without one it is shared memory that the CPU uses,
 * until gpumem_register. Where gpumemd has it made by the driver (--pinned-backing vmm) a process
 * without CUDA gets _UNSUPPORTED.
 * Errors: GPUMEM_E_REFUSED, _LIMIT, _TOO_LARGE, _DEVICE_FULL, _TIMED_OUT, _NO_POOL, _NO_DRIVER,
 * _NO_CONTEXT, _WRONG_STREAM, _UNSUPPORTED (flags), _BAD_REQUEST (n_bytes 0, unknown kind),
 * _DISCONNECTED, _FORKED. */
GPUMEM_API int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                            void **ret_pointer);

/* Makes pinned memory that was allocated without a current context known to the driver, so that
 * copies need no staging; what was allocated with one is known already. Needs a current context, and
 * afterwards holds in all of them. The allocation must not be freed meanwhile. On failure nothing has
 * changed.
 * Errors: GPUMEM_E_NOT_OURS, _BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER, _FORKED, -EIO. */
GPUMEM_API int gpumem_register(struct gpumem_client *client, void *pointer);

/* Ends an allocation. `stream` is alive and orders the free: work that uses the memory was
 * enqueued there, or is ordered before this point of it. Device memory freed in the stream that it
 * was allocated for can be had again there at once. In three cases the call waits for the stream
 * first: the memory is pinned, it was allocated for another stream, or its block becomes empty and
 * goes back to the daemon. NULL pointers are legal.
 * Errors: GPUMEM_E_NOT_OURS (nothing is freed), _NO_CONTEXT (a default stream without a current
 * context; nothing is freed), _FORKED, -EINVAL (no such stream; nothing is freed), -EIO (the GPU's
 * work failed: the allocation is ended, its block stays with the client). */
GPUMEM_API int gpumem_free(struct gpumem_client *client, void *pointer, void *stream);

/* The same for a caller who has no stream: waits for all work of the device first. */
GPUMEM_API int gpumem_free_sync(struct gpumem_client *client, void *pointer);

/* What this client holds, in bytes: n_requested <= n_allocated <= n_reserved. */
struct gpumem_stats {
        size_t struct_size; /* set by the caller */
        uint64_t n_requested_bytes;
        uint64_t n_requested_peak_bytes;
        uint64_t n_allocated_bytes; /* requests rounded up to 512 */
        uint64_t n_allocated_peak_bytes;
        uint64_t n_reserved_bytes; /* blocks leased from the daemon */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_hits;   /* allocations served without a message to the daemon */
        uint64_t n_misses; /* the others */
        uint64_t n_blocks;
};

/* Of one pool: a device by its CUDA ordinal, or a NUMA node's pinned memory (or GPUMEM_NEAREST).
 * Errors: GPUMEM_E_BAD_REQUEST, _NO_POOL, _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                                struct gpumem_stats *ret_stats);

enum gpumem_scope {
        GPUMEM_SCOPE_TENANT = 1, /* blocks cached for the caller's tenant */
        GPUMEM_SCOPE_NODE = 2,   /* every tenant's: for root and the daemon's own user */
};

/* Gives every cached block in the scope back to the driver; returns when that has happened.
 * Errors: GPUMEM_E_DENIED, _BAD_REQUEST, _DISCONNECTED, _FORKED. `ret_freed_bytes` may be NULL. */
GPUMEM_API int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                                      uint64_t *ret_freed_bytes);

/* One sentence for any result of these functions. Never NULL; valid for ever. */
GPUMEM_API const char *gpumem_strerror(int result);

#ifdef __cplusplus
}
#endif

#endif
