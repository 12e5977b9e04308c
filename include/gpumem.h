/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem.h - GPU and pinned host memory, managed by one daemon per node
 *
 * gpumemd owns the cached device memory and the pinned host memory of a machine. This library leases blocks from it
 * over a Unix socket and maps them into the process. It cuts allocations out of these blocks without a message or a
 * system call. Each group of functions has a manual page; gpumem(3) lists the pages.
 *
 * Results   0 is success. A positive result is an outcome that the caller handles, GPUMEM_E_*. A negative result is
 *           -errno: a fault of the system or the driver. gpumem_strerror() describes both. Any function may return
 *           -ENOMEM, -EIO or another fault besides the errors that it lists. Outputs are the last parameters, named
 *           ret_*; they change only if the result is 0.
 * Threads   Any thread may call any function.
 * Sizes     Sizes are in bytes; their names end with bytes.
 * Structs   The caller sets struct_size to sizeof the struct. -EINVAL: it is too small, or an output is larger than the
 *           library's struct. -E2BIG: an input has a field that is not 0 and that this library does not know. Other
 *           fields of an input may be 0 for their defaults.
 * Ownership The caller owns an allocation until it frees it, also when the daemon ends. Calls that need the daemon then
 *           connect to the next one, or return GPUMEM_E_DISCONNECTED. When a process ends, its blocks are not reused
 *           while GPU work may use them.
 * Timeouts  If the daemon does not answer within 10 seconds (20 at most per call), the call fails with
 *           GPUMEM_E_DISCONNECTED. wait_ms comes on top. The library ignores a later answer. A daemon that answers
 *           other requests is present, however long one request takes.
 * Tenants   A tenant is a user, in one container or outside of all; the daemon's configuration decides. The daemon
 *           caches memory for a tenant and serves it again to that tenant only.
 * Fork      A client is valid in the process that connected it. In a forked child its calls return GPUMEM_E_FORKED, and
 *           the parent's pinned memory is not mapped. The child connects again if it needs to.
 * CUDA      Device memory needs a current context. The library creates none. It loads the driver with dlopen:
 *           GPUMEM_CUDA_LIBRARY, or libcuda.so.1. It calls no CUDA function from a destructor or at exit.
 * Default   Client NULL is the process's default client. The first call that needs it connects it, as
 *           gpumem_connect(NULL) does, and may return the errors of gpumem_connect. It stays until the process ends. A
 *           forked child has its own. Calls that free or detach memory, and gpumem_record_use, do not connect it.
 *           Without a default client they return GPUMEM_E_NOT_OURS. gpumem_stream_unregister returns
 *           GPUMEM_E_NOT_REGISTERED then.
 * Debugging gpumem(3) describes GPUMEM_TRACE, which records calls, and GPUMEM_DEBUG, which finds errors of the program.
 *           */
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

enum gpumem_kind {
        GPUMEM_DEVICE = 1, /* device memory of one GPU */
        GPUMEM_PINNED = 2, /* host memory, locked and known to the driver */
};

/* gpumem-connect(3): connect to the daemon, and learn why a call failed
 *
 * A process needs one client. Memory that one client allocated cannot be freed through another. Without a CUDA driver
 * on the machine the client serves pinned memory only.
 * The library keeps empty blocks mapped when their GPU work is over, so that it can use them again without a message.
 * The daemon may take such idle blocks for other processes at any time. A thread of the library marks blocks as idle.
 * It starts when there is work for it, blocks all signals, and ends in gpumem_disconnect or at the process's exit.
 * GPUMEM_SERVICE_THREAD, GPUMEM_CACHE_SIZE, GPUMEM_MEMORY_FRACTION, GPUMEM_MEMORY_LIMIT and GPUMEM_FENCE change this:
 * see gpumem(3). */

/* A connection to the daemon, with the memory that the process holds through it. */
struct gpumem_client;

struct gpumem_options {
        size_t struct_size;
        const char *socket_path;  /* default: GPUMEM_SOCKET, /run/gpumemd/gpumemd.sock, then
                                   * $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock */
        const char *cuda_library; /* default: GPUMEM_CUDA_LIBRARY, then libcuda.so.1 */
        const char *program; /* name shown to administrators, in UTF-8, of which 31 bytes are shown;
                                   * default: the process's own */
};

/* Connects to the daemon. `options` may be NULL. The caller ends the client with gpumem_disconnect. Errors:
 * GPUMEM_E_DISCONNECTED, _VERSION, _DENIED, _TOO_MANY, _BAD_FRACTION (GPUMEM_MEMORY_FRACTION), _BAD_LIMIT,
 * _BAD_CACHE_SIZE, _BAD_SERVICE_THREAD, _BAD_DEBUG, _BAD_FENCE, -EINVAL (struct_size, or an empty socket path), -E2BIG,
 * -ENAMETOOLONG (a socket path of more than 107 bytes). gpumem_connect_refusal explains each. */
GPUMEM_API int gpumem_connect(const struct gpumem_options *options,
                              struct gpumem_client **ret_client);

/* Returns all empty blocks, unmaps the others and ends the connection. Memory that the program still uses becomes
 * invalid; its GPU work must be over. No other thread may use the client during the call or afterwards. The call does
 * nothing for NULL, for the default client, and in an event callback. */
GPUMEM_API void gpumem_disconnect(struct gpumem_client *client);

/* Returns the default client, and connects it if necessary. Errors: as gpumem_connect. */
GPUMEM_API int gpumem_default_client(struct gpumem_client **ret_client);

/* Sets the name by which the daemon and its tools show the default client, for interpreters: the script's. It counts for
 * the next connect of a default client. NULL: the file that runs, as without the call. */
GPUMEM_API void gpumem_set_program(const char *name);

/* Returns the library's version, such as "0.2.0". The text is always valid. */
GPUMEM_API const char *gpumem_version(void);

/* Returns one sentence for any result of these functions. The text is always valid. */
GPUMEM_API const char *gpumem_strerror(int result);

#define GPUMEM_TEXT_BYTES 400

struct gpumem_refusal {
        size_t struct_size;
        int code;              /* the result of the call */
        enum gpumem_kind kind; /* of the request; 0 for gpumem_share and gpumem_attach */
        int32_t place;         /* of the request */
        uint64_t n_bytes;      /* of the request */
        /* For people: the reason, which clients hold the memory, and what to do. Clients of the caller's tenant are
         * named, the largest first; of other tenants the text has the sum. */
        char text[GPUMEM_TEXT_BYTES];
};

/* Describes the calling thread's last failure in gpumem_alloc, gpumem_reserve, gpumem_share, gpumem_attach,
 * gpumem_export_dmabuf or gpumem_enable_peer with this client, or in a call for a pool that does not exist, such as
 * gpumem_get_stats. Calls that succeed do not change it. A thread keeps the failures of four clients, those that failed
 * last. `client` NULL is the default client; before it has connected,
 * this is gpumem_connect_refusal.
 * If the daemon refused the call, the text is the daemon's. Without a daemon the text names the socket. After a wrong
 * call (GPUMEM_E_BAD_REQUEST, _NO_POOL, _WRONG_STREAM, _UNSUPPORTED, -EINVAL of struct_size) the text names the value
 * and what is allowed, as far as the library knows it. Otherwise it is the text of gpumem_strerror.
 * Errors: GPUMEM_E_NO_REFUSAL, _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_last_refusal(struct gpumem_client *client,
                                   struct gpumem_refusal *ret_refusal);

/* Describes why the calling thread's last gpumem_connect failed, or the default client's. The text names the socket, or
 * the variable and its allowed values. kind, place and n_bytes are 0. Errors: GPUMEM_E_NO_REFUSAL, -EINVAL
 * (struct_size). */
GPUMEM_API int gpumem_connect_refusal(struct gpumem_refusal *ret_refusal);

/* gpumem-allocate(3): allocate and free device memory and pinned memory
 *
 * Every allocation has a kind, a place and a stream. The place is a device or a NUMA node. The stream is the one that
 * will use the memory; it also orders the free, see gpumem-streams(3). Streams that capture have rules of their own,
 * see gpumem-capture(3). */

#define GPUMEM_NEAREST (-1) /* the place that is nearest to the caller */

/* Flag of a request: other processes may attach the memory, see gpumem_share. It gets a new block of its own, aligned
 * to 2 MiB. No other allocation ever uses that block. */
#define GPUMEM_SHAREABLE UINT32_C(1)

/* Flag of a request: `place` counts. Without it `place` is 0 or GPUMEM_NEAREST, and both mean the nearest. */
#define GPUMEM_AT_PLACE UINT32_C(2)

/* Flag of a request, for a thread that has no context, or another device's. The primary context of `place` is current
 * during the call. For the nearest place it is that of the current context's device, or of device 0. The client retains
 * this context until gpumem_disconnect. A default stream is then this context's; another `stream` keeps its own
 * context. */
#define GPUMEM_PRIMARY UINT32_C(4)

/* Flag of a request: others than this process's GPU work will know the memory, such as a network adapter, or NCCL with
 * ncclCommRegister. It gets a new block of its own, aligned to 2 MiB, for as long as it lives. At its free the block is
 * unmapped and goes back to the driver. See gpumem-registered(3). */
#define GPUMEM_REGISTERED UINT32_C(8)

/* Flag of a request for device memory: GPUMEM_REGISTERED, and the driver makes the block such that network adapters can
 * reach it (gpuDirectRDMACapable). GPUMEM_E_UNSUPPORTED: the device has no GPUDirect RDMA for such memory, or the
 * memory is pinned. */
#define GPUMEM_RDMA UINT32_C(16)

/* Set struct_size, kind and n_bytes; the others may be 0. */
struct gpumem_request {
        size_t struct_size;
        enum gpumem_kind kind;
        /* With GPUMEM_AT_PLACE. Device: CUDA ordinal in this process; the nearest is the stream's. Pinned: NUMA node;
         * the nearest is next to the current context's device, without a context next to the calling CPU. */
        int32_t place;
        /* CUstream or cudaStream_t that will use the memory; NULL: the current context's legacy default stream. */
        void *stream;
        uint64_t n_bytes; /* at least 1 */
        uint32_t flags;   /* GPUMEM_SHAREABLE, _AT_PLACE, _PRIMARY, _REGISTERED and _RDMA, or 0 */
        /* How long to wait for memory that others hold, or for a daemon that is away. 600,000 at most; larger values
         * count as that. 0: do not wait. */
        uint32_t wait_ms;
};

/* Allocates memory for use in the order of `stream`. The address is a multiple of 512 at least. The contents are
 * undefined. They may be bytes of an earlier allocation of the same tenant, never of another tenant. The caller frees
 * the memory with gpumem_free or one of its variants.
 * Pinned memory needs no context and no driver. Without a context it is shared memory for the CPU, until
 * gpumem_register. Where the driver makes pinned memory for gpumemd (--pinned-backing vmm), a process without CUDA gets
 * _UNSUPPORTED.
 * Before it refuses, the library waits for memory that was freed and that GPU work still uses. Before it refuses pinned
 * memory, it also unregisters what is free here, as gpumem_flush does. Until then the client is charged for such
 * memory. That holds even if other clients of the tenant used idle blocks of it meanwhile.
 * Errors: GPUMEM_E_REFUSED, _LIMIT, _TOO_LARGE, _DEVICE_FULL, _TIMED_OUT, _NO_POOL, _NO_DRIVER, _NO_CONTEXT,
 * _WRONG_STREAM (also: the current context, whose default stream NULL is, is of another device than `place`),
 * _UNSUPPORTED (unknown flags; shareable or registered memory in a stream that captures; a capture that is invalid;
 * GPUMEM_RDMA or GPUMEM_REGISTERED where gpumemd cannot make such memory), _BAD_REQUEST
 * (n_bytes 0, an unknown kind, a `place` without GPUMEM_AT_PLACE), _DENIED (the user may not use the GPU, or gpumemd
 * serves one tenant only there), _DRIVER (it failed, or the device is in error, or lost), _STALLED (the driver does not
 * answer gpumemd, and the request needs it), _TOO_MANY (blocks, leases or requests: gpumem_last_refusal says which),
 * _SHUTTING_DOWN, _DISCONNECTED, _FORKED, -EINVAL (struct_size; no such stream, if the driver notices), -E2BIG. */
GPUMEM_API int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                            void **ret_pointer);

/* gpumem_alloc with the default client, without waiting. gpumem_malloc allocates n_bytes of device memory for `stream`,
 * on its device. gpumem_malloc_pinned allocates pinned memory on the nearest NUMA node. Errors: as gpumem_alloc, and as
 * gpumem_connect. */
GPUMEM_API int gpumem_malloc(uint64_t n_bytes, void *stream, void **ret_pointer);
GPUMEM_API int gpumem_malloc_pinned(uint64_t n_bytes, void **ret_pointer);

/* Frees memory in stream order. All work that uses the memory must be enqueued in `stream`, or finish before what
 * `stream` does next, by events or waits. `stream` must exist; NULL is the current context's default stream. Pinned
 * memory that was allocated without a context needs no context. `pointer` may be NULL.
 * Device memory that is freed in the stream that it was allocated for is available there at once. The call waits for
 * `stream` first if the memory is pinned, shareable or registered, if it was allocated for another stream, or if
 * GPUMEM_CACHE_SIZE is exceeded. For shareable and registered memory, and beyond GPUMEM_CACHE_SIZE, it waits for the
 * whole context where a stream is registered.
 * Errors, with which nothing is freed: GPUMEM_E_NOT_OURS, _ATTACHED (the pointer belongs to gpumem_detach), _NO_CONTEXT
 * (a default stream without a current context), _UNSUPPORTED (a capture that is invalid; shareable or registered memory
 * in a stream that captures), _FORKED, -EINVAL (no such stream, if the driver notices), -EIO (the GPU's work failed),
 * -ENOMEM (in a stream that captures). */
GPUMEM_API int gpumem_free(struct gpumem_client *client, void *pointer, void *stream);

/* Frees memory for a caller that has no stream. It waits for all work of the context in which the memory was allocated,
 * and of the calling thread's current context. Work of other contexts must be over. To wait, the library has the driver
 * register a page of host memory, or else allocate a little device memory, and take it back.
 * Errors, with which nothing is freed: as gpumem_free. If the driver has neither, its error, such as
 * GPUMEM_E_DEVICE_FULL; the caller may try again. */
GPUMEM_API int gpumem_free_sync(struct gpumem_client *client, void *pointer);

/* Registers pinned memory with the driver, so that copies need no staging. Memory that was allocated or attached with a
 * current context is registered already. The call needs a current context, and then holds in all contexts. No thread
 * may free the memory during the call.
 * Errors, with which nothing has changed: GPUMEM_E_NOT_OURS, _BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER,
 * _FORKED, -EIO. */
GPUMEM_API int gpumem_register(struct gpumem_client *client, void *pointer);

/* Lets device `peer` read and write the client's device memory on `place`. This holds for all memory that the client
 * has there, now and later, allocated or attached, until gpumem_disconnect. Both are CUDA ordinals in this process, or
 * GPUMEM_NEAREST for the current context's device. It holds in one direction, and needs no context. Other processes
 * that hold the same memory call it for themselves. A second call does nothing, nor does a call with one device twice.
 * The call waits for allocations under way that need blocks, not for GPU work. Mapping a block takes longer afterwards.
 * Streams of other devices are ordered like those of one: gpumem_record_use, or a free in the stream of the last use.
 * Errors: GPUMEM_E_UNSUPPORTED (the devices are no peers, or gpumemd serves `place` as CUDA IPC handles;
 * gpumem_last_refusal says which), _NO_POOL (no such device in this process, or no pool for `place`), _NO_CONTEXT
 * (GPUMEM_NEAREST), _NO_DRIVER, _FORKED, -EINVAL, -EIO and other faults of the driver, with which later mappings are as
 * before. */
GPUMEM_API int gpumem_enable_peer(struct gpumem_client *client, int32_t place, int32_t peer);

/* Reserves n_bytes of device memory for a burst, as a whole or not at all. While the reservation stands, no other
 * client gets this memory. Allocations of this client on the device need no daemon, as long as they add at most n_bytes
 * to what is allocated now. Freed memory returns to the reservation. Another stream gets it after the work that was
 * enqueued at its free.
 * The memory is one run of addresses, so one allocation may take all of it. A stream takes whole blocks, each of about
 * n_bytes / 32 and of 4 MiB at least. Reserve one block more for each further stream, and for sizes that do not divide
 * a block.
 * The client's idle memory counts first, if it is in one run. If the daemon lacks memory for the rest, the client
 * returns all idle memory, as gpumem_flush does, and asks for n_bytes again. Then the daemon waits up to wait_ms. The
 * client holds nothing while it waits.
 * A client has one reservation on a device. The next call ends it, also a call that fails; n_bytes 0 only ends it.
 * gpumem_flush and gpumem_free_all_blocks do not touch it. It survives a change of daemons, and lasts until
 * gpumem_disconnect. It is charged and limited like allocated memory.
 * Errors: as gpumem_alloc, and as gpumem_get_stats for `place`; GPUMEM_E_UNSUPPORTED (the device is served as CUDA IPC
 * handles, or gpumemd is older than this function). gpumem_last_refusal has the text. */
GPUMEM_API int gpumem_reserve(struct gpumem_client *client, int32_t place, uint64_t n_bytes,
                              uint32_t wait_ms);

#define GPUMEM_NO_LIMIT UINT64_MAX

/* Sets the client's own limit in one pool. The library requests no block that would raise what it has reserved there
 * above n_bytes: gpumem_alloc returns GPUMEM_E_LIMIT. What is reserved already stays, also if it is more; gpumem_trim
 * returns what is empty. A block may be an eighth larger than the request, and exceed the limit by that. The daemon's
 * limits hold as well. GPUMEM_NO_LIMIT ends the limit. Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_set_limit(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                                uint64_t n_bytes);

/* gpumem_set_limit for a device, with a part of its memory: 0 to 1. 1 ends the limit. GPUMEM_MEMORY_FRACTION sets it at
 * the start, and GPUMEM_MEMORY_LIMIT in bytes; the lower one counts. Errors: GPUMEM_E_BAD_FRACTION, and as
 * gpumem_get_stats. */
GPUMEM_API int gpumem_set_memory_fraction(struct gpumem_client *client, int32_t place,
                                          double fraction);

/* Sets how much empty memory the library keeps in each pool, as GPUMEM_CACHE_SIZE does at the start; that describes
 * what it means: gpumem(3). Empty blocks beyond n_bytes go back to the daemon now, for which the call waits as
 * gpumem_flush does; allocations stay. GPUMEM_NO_LIMIT: the library keeps empty blocks, and the daemon may take them
 * when they are idle. Errors: GPUMEM_E_FORKED. */
GPUMEM_API int gpumem_set_cache_size(struct gpumem_client *client, uint64_t n_bytes);

/* Returns to the daemon every block that no allocation of this client needs. It waits for the work of the contexts in
 * which memory of the blocks was freed. It unregisters pinned memory, also idle memory that the daemon has taken
 * meanwhile. For that the driver waits for every running kernel. Only gpumem_free_all_blocks, gpumem_disconnect and an
 * allocation that would be refused do the same. `ret_freed_bytes` may be NULL. Errors: GPUMEM_E_FORKED. */
GPUMEM_API int gpumem_flush(struct gpumem_client *client, uint64_t *ret_freed_bytes);

/* Returns empty blocks to the daemon, until in each pool no more than n_keep_bytes are reserved, or no empty block is
 * left. Blocks go whole: less may stay. Where more is reserved, it waits as gpumem_flush does; with n_keep_bytes 0 it
 * is gpumem_flush. `ret_freed_bytes` may be NULL. Errors: GPUMEM_E_FORKED. */
GPUMEM_API int gpumem_trim(struct gpumem_client *client, uint64_t n_keep_bytes,
                           uint64_t *ret_freed_bytes);

/* Returns the blocks to the daemon that have been idle for idle_ms: those that gpumem_get_stats counts as cached. It
 * waits for no GPU work, but it unregisters pinned memory. With GPUMEM_CACHE_SIZE no block is idle. `ret_freed_bytes`
 * may be NULL. Errors: GPUMEM_E_FORKED. */
GPUMEM_API int gpumem_trim_idle(struct gpumem_client *client, uint32_t idle_ms,
                                uint64_t *ret_freed_bytes);

enum gpumem_scope {
        GPUMEM_SCOPE_TENANT = 1, /* blocks cached for the caller's tenant */
        GPUMEM_SCOPE_NODE = 2,   /* every tenant's: for root, or over the admin socket */
};

/* Returns every unused block in the scope to the driver, and waits until that has happened. It flushes the caller's
 * client first, as gpumem_flush does. From other processes it takes cached blocks, and blocks that are idle in their
 * leases. It neither takes nor counts what another process keeps registered, or does not unmap within a second;
 * gpumemctl free-all lists that. At least *ret_freed_bytes have gone back; `ret_freed_bytes` may be NULL.
 * Errors, after which the caller's client may be flushed: GPUMEM_E_DENIED, _BAD_REQUEST, _TOO_MANY (requests),
 * _DISCONNECTED, _FORKED. */
GPUMEM_API int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                                      uint64_t *ret_freed_bytes);

/* gpumem-streams(3): the order of allocations, work and frees in streams
 *
 * The program orders its work. Work that uses memory comes after the allocation and before the free. It is in the
 * stream that the call names, or in a stream that events or waits order with it. gpumem_record_use declares other
 * streams that still use the memory at its free.
 * The library forgives one thing, which PyTorch programs do. Work in registered streams (gpumem_stream_register) may
 * still use memory at its free. The stream that the memory was allocated for may wait for that work after the free. It
 * must do so before it uses the memory again.
 * GPUMEM_FENCE says for which work the library waits before freed memory leaves its stream: for another stream, another
 * process or the driver. "streams" is the default: the memory's own stream and the registered streams. "context" means
 * all streams of the context, registered or not. It is for programs that do not capture, since it ends captures of the
 * context. It needs a driver of CUDA 12.5 or newer. "own" means the memory's own stream alone. It is for programs with
 * a kernel that never ends. */

/* Declares that `stream` uses the allocation at `pointer`, besides the stream that will order its free. The free then
 * does not wait. The memory is not reused until both streams have reached this point; `stream` must live until then.
 * Call it once for each such stream, at any time before the free. The stream that the memory was allocated for needs no
 * call. The free and the detach of shared memory wait for `stream`.
 * Errors, with which nothing has changed: GPUMEM_E_NOT_OURS, _NO_CONTEXT (a default stream without a current context),
 * _UNSUPPORTED (a stream that captures; CU_STREAM_PER_THREAD, unless the memory was allocated for this thread's),
 * _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_record_use(struct gpumem_client *client, const void *pointer, void *stream);

/* Frees memory in the order of the stream that it was allocated for. It is for callers that have neither that stream
 * nor a context, such as garbage collectors. The memory's last use must be in that stream, or be ordered before the
 * call there. For device memory the call does not wait, and the stream can use the memory again at once. If the stream
 * is registered or open (gpumem_stream_open), this is gpumem_free in it, and it must stay so during the call; while a
 * capture is announced (gpumem_before_capture), it is not touched, and a free of memory with recorded uses waits. In a
 * context's default stream the call may record an event, and so may later calls of any thread; see
 * gpumem_stream_register. Any other stream may be destroyed already. Then other streams and processes get the memory
 * after the next allocation or free in that stream, or when the library waits for the whole context. It does so in
 * gpumem_flush, and in an allocation that would be refused otherwise. If GPUMEM_CACHE_SIZE is exceeded, the call waits
 * for the context.
 * This is gpumem_free_sync for pinned, shareable and registered memory, and for memory of an unregistered stream with
 * recorded uses (gpumem_record_use). Errors: as gpumem_free_sync. */
GPUMEM_API int gpumem_free_in_order(struct gpumem_client *client, void *pointer);

/* Frees memory as cuMemFree does, but does not wait. No stream gets the memory again, not even its own, before the work
 * is over that is now in the registered streams of its context. Its own stream must be one of them, or GPUMEM_FENCE
 * must be "context". The default stream, if it is registered, stands for all blocking streams. Otherwise, and for
 * pinned, shareable and registered memory and memory of graphs this is gpumem_free_sync. Errors: as gpumem_free_sync. */
GPUMEM_API int gpumem_free_later(struct gpumem_client *client, void *pointer);

/* Registers a stream, which must live until gpumem_stream_unregister. NULL is the default stream of the current
 * context. From now on, memory that is freed in the same context stays in the stream that it was allocated for. It
 * leaves when the work is over that the registered streams have at the free. Pinned memory is not reused in its own
 * stream before that either, since the CPU writes it next.
 * Register only streams that use memory of other streams: each free that lets memory go records an event in every
 * registered stream. A stream may be registered several times, and is then unregistered as often. While a registered
 * stream captures, memory that is freed in its context stays in its streams. The next gpumem_alloc, gpumem_free or
 * gpumem_flush of any thread after the capture lets it go. Each thread that frees records an event in the registered
 * streams, and calls of any thread may record one in a default stream in which memory was freed. If another thread
 * begins or ends a capture at that moment, CUDA may end the process, or the capture in a blocking stream. Announce
 * captures for this reason: gpumem_before_capture.
 * While work of a registered stream does not end, memory that is freed in its context stays in its streams. Other
 * streams and processes do not get it, and calls that wait for all work, such as gpumem_flush, do not return.
 * Errors: GPUMEM_E_CAPTURES (it captures), _UNSUPPORTED (CU_STREAM_PER_THREAD), _NO_CONTEXT (a default stream without a
 * current context), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_stream_register(struct gpumem_client *client, void *stream);

/* Unregisters a stream once; the stream must live. After the last time the program may destroy it. The work that it has
 * now still counts. Errors, with which nothing has changed: GPUMEM_E_NOT_REGISTERED, and as gpumem_stream_register. */
GPUMEM_API int gpumem_stream_unregister(struct gpumem_client *client, void *stream);

/* Makes work that is enqueued in `stream` from now on wait for the work that is in `producer` now. NULL is the default
 * stream of the current context. If `producer` captures, `stream` joins its capture. Errors: GPUMEM_E_CAPTURES
 * (`stream` captures and `producer` does not; one is the default stream of a context of which a blocking stream
 * captures), _NO_CONTEXT (a default stream without a current context), _NO_DRIVER,
 * _FORKED, -EINVAL (no such stream, if the driver notices). */
GPUMEM_API int gpumem_stream_wait(struct gpumem_client *client, void *stream, void *producer);

/* The handle of a stream. Allocations and frees through it take less time, since the library does not ask the driver
 * which stream it is. */
struct gpumem_stream;

/* Opens a handle of a stream, which must live until gpumem_stream_close. NULL is the default stream of the context that
 * is current now; calls with the handle need no current context. A stream that is open has one handle: opening it again
 * returns the same one, which is then closed as often. Handles end with the client, in gpumem_disconnect.
 * Errors: GPUMEM_E_CAPTURES (it captures), _UNSUPPORTED (CU_STREAM_PER_THREAD), _NO_CONTEXT (a default stream without a
 * current context), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM; and as
 * gpumem_connect, with client NULL. */
GPUMEM_API int gpumem_stream_open(struct gpumem_client *client, void *stream,
                                  struct gpumem_stream **ret_stream);

/* gpumem_alloc of n_bytes of device memory for the stream, on its device, without waiting. The call asks the driver
 * whether the stream captures, however the capture began; the memory then belongs to the graph. Calls of gpumem_alloc
 * for the stream, and through the handle, may alternate. Errors: GPUMEM_E_CLOSED, and as gpumem_alloc. */
GPUMEM_API int gpumem_stream_alloc(struct gpumem_stream *stream, uint64_t n_bytes,
                                   void **ret_pointer);

/* gpumem_free in the stream, of any allocation of the client; `pointer` may be NULL. gpumem_free and the other calls
 * may free what the handle has allocated. There is one difference. While the stream captures, memory that was allocated
 * for it outside of captures is freed at once. The stream reuses it after the capture, and the graph must not use it.
 * gpumem_free defers that free. Errors, with which nothing is freed: GPUMEM_E_CLOSED, and as gpumem_free. */
GPUMEM_API int gpumem_stream_free(struct gpumem_stream *stream, void *pointer);

/* Closes the handle once; NULL is legal. After the last time the handle is invalid, and the program may destroy the
 * stream. What is allocated stays, and is freed by gpumem_free_in_order. No other thread may use the handle during the
 * last close. A handle that was closed is found as long as fewer than 64 others were closed since: calls with it return
 * GPUMEM_E_CLOSED. With GPUMEM_DEBUG=stacks they also write to stderr where it was used and where it was closed.
 * Errors: GPUMEM_E_CLOSED, _FORKED. */
GPUMEM_API int gpumem_stream_close(struct gpumem_stream *stream);

/* gpumem-capture(3): memory in captures of CUDA graphs, and graph pools
 *
 * No call ends a capture that is under way, of whatever thread; gpumem-streams(3) names the exceptions. The library
 * makes calls that the driver calls unsafe with the thread's capture mode RELAXED. gpumem_flush,
 * gpumem_free_all_blocks, gpumem_free_sync, and an allocation that would be refused otherwise, wait for whole contexts.
 * Launches of other threads there may wait with them.
 * Device memory that is allocated in a stream that captures belongs to the graph. If the same stream frees it in the
 * same capture, it can be allocated again there, in the graph's order. The memory is not reused elsewhere until it is
 * freed, the graph, its clones and its executables are gone, and their work is over. Pinned memory belongs to the graph
 * too, but memory that the capture frees is not reused before the graph is gone. The graph reads again what the CPU has
 * written there. Shareable memory cannot be allocated in a capture, since other processes hold it that know no graph.
 * Allocate it before the capture.
 * Some frees in a stream that captures are deferred: of pinned memory, and of memory that is not from that stream of
 * that capture. They do not wait. The memory is reused when the capture is over and a later call allocates or frees in
 * the stream. It is also reused when the graph is gone, and gpumem_flush is called or memory is lacking. Until then do
 * not destroy the stream while it has work from before the capture. Shareable memory cannot be freed or detached in a
 * stream that captures: GPUMEM_E_UNSUPPORTED.
 * CUDA ends the process with SIGSEGV if a thread begins or ends a capture in a stream while another thread uses that
 * stream. When memory is freed, the library enqueues events in registered streams (gpumem_stream_register). So a
 * program whose threads may call the library while another thread begins or ends a capture in a registered stream
 * announces the capture with gpumem_before_capture. At that moment no other thread may pass the stream itself to the
 * library, or to CUDA.
 * Many graphs can share the memory of a graph pool. A capture that begins in a stream with an open pool allocates from
 * the pool. So do streams that join the capture and have no other pool open. For these the library has to find the pool. It
 * does if the capture's first allocation is for the pool's own stream, or in the thread that opened the pool. Otherwise
 * memory for them is the graph's own until an allocation for the pool's own stream. What the capture frees, the pool's next
 * capture gets. Device memory that is allocated in such a stream outside of captures belongs to the pool too, so that a
 * program can warm up there. Pinned memory, shareable memory and memory of other streams do not.
 * The program promises that graphs of a pool, and work outside of captures on its memory, run one after another. A
 * graph that runs may overwrite what graphs captured later have written, even where that is still allocated. It may
 * also overwrite memory that was freed before it was captured. The pool's memory is not reused elsewhere until four
 * conditions hold. The pool is open in no stream; all its graphs, their clones and executables are gone; their work is
 * over; nothing of it is allocated. */

/* Announces a capture, before cuStreamBeginCapture. From now to gpumem_after_capture the client enqueues nothing in
 * registered and default streams; gpumem_stream_wait, gpumem_stream_unregister and GPUMEM_DEBUG=fill do, in the stream
 * that the call names. Memory that is freed stays in the stream that it was allocated for, which can use it again at
 * once. The call waits for threads that enqueue events at the moment. Captures may overlap: each is announced. Any
 * thread may call this, and another one gpumem_after_capture. A free of memory with recorded uses (gpumem_record_use) may
 * wait meanwhile for all work of its context. Each client of the process that has registered streams needs the call.
 * Errors: GPUMEM_E_FORKED; and as gpumem_connect, with client NULL. */
GPUMEM_API int gpumem_before_capture(struct gpumem_client *client);

/* The capture has ended: to be called after cuStreamEndCapture, also if that failed. After the last one the call lets
 * memory go that was freed meanwhile. Errors: GPUMEM_E_NO_CAPTURE (none is announced), _FORKED. */
GPUMEM_API int gpumem_after_capture(struct gpumem_client *client);

/* Opens a graph pool in `stream`. The program chooses `id`, below 2^63; an `id` in use continues that pool. `id` 0
 * makes a new pool, whose id is *ret_id; otherwise `ret_id` may be NULL. A pool may be open in several streams. A
 * stream has one open pool at most, and must live until gpumem_graph_pool_end. Memory that another thread allocates in
 * the stream during the call may or may not be the pool's.
 * Errors: GPUMEM_E_GRAPH_POOL_OPEN (the stream has one), _CAPTURES (the stream captures already), _NO_GRAPH_POOL (an id
 * of 2^63 or more that no call has given), _UNSUPPORTED (a default stream), _BAD_REQUEST (id 0 without ret_id),
 * _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_graph_pool_begin(struct gpumem_client *client, uint64_t id, void *stream,
                                       uint64_t *ret_id);

/* Closes the pool in the stream; graphs and allocations keep it. If memory was allocated outside of captures there, the
 * call waits for the stream.
 * Errors, with which it is open as before: GPUMEM_E_NO_GRAPH_POOL (unknown, or not open in that stream), _CAPTURES (the
 * stream captures: end the capture first), _UNSUPPORTED (a default stream), _NO_DRIVER, _FORKED, -EINVAL (no such
 * stream, if the driver notices). Any other error is the driver's, of waiting: the pool is closed. Its memory is then
 * not reused before gpumem_flush has waited for all work, or the context is gone. */
GPUMEM_API int gpumem_graph_pool_end(struct gpumem_client *client, uint64_t id, void *stream);

/* gpumem-registered(3): memory that network adapters and NCCL know
 *
 * Memory that is allocated with GPUMEM_REGISTERED has a block of its own, until it is freed. The block is never idle,
 * moved, joined with others, or used for another allocation, of this process or another. So what a network adapter or a
 * communication library keeps of the address stays true until the free. Such memory is charged and limited like other
 * memory. Each allocation takes 2 MiB at least, and calls of gpumemd and of the driver. So allocate few and large ones,
 * before a stream captures.
 * The program ends what it has registered elsewhere before it frees the memory: it deregisters memory regions, calls
 * ncclCommDeregister and destroys graphs that use it. A free waits for the GPU's work, and for nothing else.
 * Fabric handles, for processes of other nodes, are not served: the driver makes them only where an IMEX channel is
 * set up. Memory of CUDA IPC handles (a pool whose "ipc" is "legacy") cannot be registered: GPUMEM_E_UNSUPPORTED. */

/* Exports device memory with GPUMEM_REGISTERED as a dma-buf. A network adapter imports that to reach the memory, by
 * ibv_reg_dmabuf_mr. `pointer` is the allocation or lies in it, at a multiple of the host's page size. n_bytes is
 * rounded up to whole pages, which are the allocation's alone.
 * The caller owns the fd, which is close-on-exec. The driver keeps the memory until the fd, its copies and its imports
 * are closed, also after the free and the end of the process. Until then no other process gets these bytes. gpumemd
 * counts them no longer after the free, but the device lacks them: close the fd and end the imports first.
 * Errors: GPUMEM_E_NOT_OURS (also memory that was freed), _UNSUPPORTED (memory without GPUMEM_REGISTERED, pinned
 * memory, attached memory; a driver or a device without dma-bufs), _BAD_REQUEST (n_bytes is 0 or reaches beyond the
 * allocation; `pointer` within a page), _FORKED, -EIO. gpumem_last_refusal names the reason. */
GPUMEM_API int gpumem_export_dmabuf(struct gpumem_client *client, const void *pointer,
                                    uint64_t n_bytes, int *ret_fd);

/* gpumem-share(3): share memory between processes
 *
 * One process allocates memory with GPUMEM_SHAREABLE and makes a token for it. Other processes attach the memory by the
 * token. All of them use the same memory: what one process writes, the others read. The processes agree on the order
 * among themselves. The program sends the token over a channel of its own, and keeps it secret. */

/* A token: 128 random bits. Any process that knows it, and that gpumem_share admits, may attach the memory. */
#define GPUMEM_TOKEN_BYTES 16
struct gpumem_token {
        uint8_t bytes[GPUMEM_TOKEN_BYTES];
};

/* Flag of the options: processes of `uid` may attach too, besides the own tenant's. */
#define GPUMEM_SHARE_GRANT UINT32_C(1)

struct gpumem_share_options {
        size_t struct_size;
        uint32_t flags; /* GPUMEM_SHARE_GRANT, or 0 */
        uint32_t uid;   /* with GPUMEM_SHARE_GRANT */
        /* How long the memory stays when its owner has freed it, or has ended, in ms; see gpumem_share. At most 60,000;
         * 0: not at all. */
        uint32_t keep_ms;
};

/* Makes a token, by which processes of the same tenant may attach an allocation with GPUMEM_SHAREABLE. `options` may
 * admit one other user, and may be NULL. The token is good for any number of attaches, until gpumem_unshare or until no
 * process holds the memory. Every call makes another token.
 * The owner may free the allocation, or end, before the others detach. The memory lives until its last holder lets go
 * of it, and is charged to the process that has held it longest of these.
 * With keep_ms the owner need not wait until another process has attached. When the owner has freed the memory, or has
 * ended, the daemon holds the memory and charges the owner's tenant. It lets go when another client attaches by this
 * token, when the time is over, or at gpumem_unshare. If a client attached before the owner's end, the daemon keeps
 * nothing. What it keeps ends with the daemon. A tenant has 1024 such tokens at a time.
 * Errors: GPUMEM_E_NOT_OURS, _NOT_SHAREABLE (also attached memory), _TOO_MANY (tokens of one allocation, tokens with
 * keep_ms, or requests), _UNSUPPORTED (flags; keep_ms, with an older gpumemd), _BAD_REQUEST (uid -1; keep_ms above
 * 60,000), _OUTLIVED (the daemon of this memory has ended), _DISCONNECTED, _FORKED, -EINVAL (struct_size), -E2BIG. */
GPUMEM_API int gpumem_share(struct gpumem_client *client, const void *pointer,
                            const struct gpumem_share_options *options,
                            struct gpumem_token *ret_token);

/* Maps an allocation that another process shares, or this one. *ret_n_bytes is the size that the owner requested.
 * Device memory needs a current context; if that is another device's, the primary one of the memory's device counts.
 * Pinned memory needs neither a context nor a driver; with a current context the call registers it. The caller ends it
 * with gpumem_detach, not with gpumem_free. gpumem_get_stats counts the bytes with their owner.
 * Errors: GPUMEM_E_NO_TOKEN (unknown, revoked, or not for this user), _NO_CONTEXT (device memory), _NO_DRIVER (device
 * memory), _NO_POOL (this process does not see the device), _LIMIT (what the caller would be charged as the last
 * holder), _TOO_MANY (attaches, leases or requests), _DENIED (the user may not use the GPU), _DRIVER (the device is
 * lost), _UNSUPPORTED (the process cannot map this memory: gpumem_last_refusal), _SHUTTING_DOWN, _DISCONNECTED,
 * _FORKED, -EIO. */
GPUMEM_API int gpumem_attach(struct gpumem_client *client, const struct gpumem_token *token,
                             void **ret_pointer, uint64_t *ret_n_bytes);

/* Ends an attachment. The last use must be in `stream`, or be ordered before this point of it; the call waits for
 * `stream`. NULL pointers are legal.
 * Errors, with which nothing is detached: GPUMEM_E_NOT_ATTACHED (the pointer belongs to gpumem_free), _NOT_OURS,
 * _NO_CONTEXT (a default stream without a current context), _UNSUPPORTED (a stream that captures), _FORKED, -EINVAL (no
 * such stream, if the driver notices), -EIO (the GPU's work failed). */
GPUMEM_API int gpumem_detach(struct gpumem_client *client, void *pointer, void *stream);

/* Ends an attachment as gpumem_free_sync ends an allocation: it waits for all work of the current context and of the one
 * in which the memory was attached, whatever streams use it. It needs neither a stream nor a context. NULL pointers are
 * legal. Errors, with which nothing is detached: as gpumem_detach. If the driver has nothing to wait with, its error;
 * see gpumem_free_sync. */
GPUMEM_API int gpumem_detach_sync(struct gpumem_client *client, void *pointer);

/* Revokes the token. Existing attachments stay valid. Every process of the tenant that shared may revoke it. Errors:
 * GPUMEM_E_NO_TOKEN, _DISCONNECTED, _FORKED. */
GPUMEM_API int gpumem_unshare(struct gpumem_client *client, const struct gpumem_token *token);

/* Convert a token to text and back. The text is 32 hexadecimal digits and a NUL. gpumem_token_format returns `text`.
 * gpumem_token_parse takes exactly 32 digits, in either case. Errors: GPUMEM_E_BAD_REQUEST. */
#define GPUMEM_TOKEN_TEXT_BYTES 33
GPUMEM_API const char *gpumem_token_format(const struct gpumem_token *token,
                                           char *text /* GPUMEM_TOKEN_TEXT_BYTES */);
GPUMEM_API int gpumem_token_parse(const char *text, struct gpumem_token *ret_token);

#ifdef __cplusplus
}
#endif

#include "gpumem-statistics.h"

#endif
