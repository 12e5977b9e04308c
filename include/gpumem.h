/* SPDX-License-Identifier: Apache-2.0 */
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
 *           away and another takes its place: what needs the daemon then connects anew, or gives
 *           GPUMEM_E_DISCONNECTED. A block whose process ends is never handed to anybody while
 *           GPU work may still use it.
 * Silence   A daemon that is there and says nothing is waited for, beyond wait_ms, for 10 seconds, 20 at most
 *           in one call; then it counts as gone: GPUMEM_E_DISCONNECTED, and what it says later finds nobody.
 *           One that answers other questions is there, however long a request takes it.
 * Tenants   A user, in a container or outside of all, as the daemon is configured: memory is cached for, and
 *           served again to, the same tenant only.
 * Fork      A child has no client: calls give GPUMEM_E_FORKED, pinned memory of the parent is not
 *           mapped there, and the child connects anew if it needs to.
 * Capture   No call ends a capture that is under way, of whatever thread: calls that the driver takes for
 *           unsafe are made with the thread's capture mode RELAXED. gpumem_flush, gpumem_free_all_blocks and
 *           gpumem_free_sync, and an allocation that would be refused otherwise, wait for whole contexts; what other threads
 *           launch there meanwhile may wait with them.
 * Streams   The program orders its work. Work that uses memory comes after the allocation, and before the free: it
 *           is in the stream that is named, or in one that is ordered with it by events or waits. What else uses the
 *           memory at the free is told by gpumem_record_use.
 *           The library forgives one thing. Work of streams that are registered (gpumem_stream_register) may
 *           still use memory at its free, and the stream that the memory was allocated for may wait for that work
 *           after the free, as long as it does so before it uses the memory again. PyTorch programs do so.
 *           GPUMEM_FENCE says for what work the library waits before freed memory leaves its stream: for another
 *           stream, another process or the driver. "streams", the default: the memory's own stream and the registered
 *           ones. "context": all streams of the context, registered or not. It is for programs that do not
 *           capture, since it ends captures of the context, and needs a driver of CUDA 12.5 or newer. "own": the
 *           memory's own stream alone. It is for programs with a kernel that never ends.
 * CUDA      Device memory needs a current context; the library makes none. It reaches the driver
 *           with dlopen (libcuda.so.1 or GPUMEM_CUDA_LIBRARY); <cuda.h> is not needed here. No CUDA
 *           function is called from a destructor or at exit.
 * Default   Every function takes client NULL, which is the process's default client. The first call that needs it
 *           connects it, as gpumem_connect(NULL) does, and gives what that gives. It stays until the process ends.
 *           A forked child has a default client of its own. What ends memory, or records its use, connects to nothing:
 *           without a default client it gives GPUMEM_E_NOT_OURS.
 * Recording GPUMEM_TRACE=FILE writes the allocations and frees of the process, those that succeed, as
 *           a trace that gpumem-bench trace FILE replays: "a ID BYTES STREAM", with BYTES as they were
 *           asked for and streams numbered as they come, and "f ID". Pinned memory has a file of its
 *           own, FILE.pinned. A name that ends in .gz is compressed, with zlib where the machine has
 *           it; pinned memory's is then x.pinned.gz for x.gz. %p in the name is the process's number.
 *           It begins with the first gpumem_connect and ends with the process; a file that is there
 *           is overwritten. Of a process that is killed, a name without .gz keeps all but the last
 *           tenth of a second; "# end" is the last line of a trace that is whole, or says how many
 *           calls are missing. What keeps it from being written is told on stderr, and the program
 *           goes on. A thread of the library's own writes the file. A forked child is not recorded.
 * Debugging GPUMEM_DEBUG=fill,guard, or one of the two words, has the library look for errors of the program.
 *           Calls take longer then, and a free may wait for its stream.
 *           With "fill" memory holds bytes 0xA5 after its allocation and 0xDD after its free. They show
 *           reads of memory that the program has not written, or has freed. The library fills device memory in
 *           the order of the call's stream, and pinned memory with the CPU. A fill is work in that stream: another
 *           stream that uses the memory must be ordered after the allocation, as it must without the fill.
 *           With "guard" each allocation has 512 bytes more behind it, which hold 0xFD. The free waits for its
 *           stream and compares them. If the program has changed one, the library writes a message to stderr
 *           and calls abort(). The message names the pointer, its size, the first changed offset, how many bytes have
 *           changed, and the stream.
 *           gpumem_describe, GPUMEM_TRACE and refusals tell the size that the program asked for;
 *           gpumem_get_stats and GPUMEM_EVENT_PRESSURE count the guard too.
 *           The library leaves memory of graphs alone: what is allocated in a stream that captures, or
 *           in one with an open graph pool. A graph may run at any time, and would write the bytes
 *           again each time. A free in a stream that captures fills and checks nothing. Memory that other streams
 *           use (gpumem_record_use) is not filled at its free. While other streams may use what is freed (a stream is
 *           registered, or what it had to do when it was unregistered is not over, or GPUMEM_FENCE=context), no
 *           memory is filled at its free, and device memory has no fill and no guard at its allocation.
 *           Shareable memory has no guard, and is filled at its allocation only. */
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

/* Flag of a request: other processes may attach the memory. It gets a block of its own, 2 MiB
 * aligned and made anew, and never becomes somebody else's. See gpumem_share. */
#define GPUMEM_SHAREABLE UINT32_C(1)

/* Flag of a request: `place` is meant. Without it `place` is 0 or GPUMEM_NEAREST, and either means the nearest. */
#define GPUMEM_AT_PLACE UINT32_C(2)

/* Flag of a request: for a thread that has no context, or another one. During the call the primary context of
 * `place` is current; of the nearest: that of the current context's device, or of device 0. The client retains it
 * until gpumem_disconnect. A default stream is that context's; another `stream` keeps the context that it is of. */
#define GPUMEM_PRIMARY UINT32_C(4)

/* Set struct_size to sizeof(struct gpumem_request), kind and n_bytes; the others are well as 0. */
struct gpumem_request {
        size_t struct_size;
        enum gpumem_kind kind;
        int32_t place; /* with GPUMEM_AT_PLACE. Device: CUDA ordinal in this process; nearest is the
                           * stream's. Pinned: NUMA node; nearest is the one next to the current
                           * context's device, without a context next to the calling CPU */
        void *stream;  /* CUstream or cudaStream_t that will use the memory; NULL: the legacy
                           * default stream of the current context */
        uint64_t n_bytes; /* at least 1 */
        uint32_t flags;   /* GPUMEM_SHAREABLE, GPUMEM_AT_PLACE and GPUMEM_PRIMARY, or 0 */
        uint32_t
                wait_ms; /* how long to wait for memory that others hold, ten minutes at most, however
                           * much more this is; and for a daemon that is away: it is tried again until
                           * this time is over; 0: not at all */
};

/* Connects to the daemon; a process needs one client only. With no CUDA driver on the machine the
 * client serves pinned memory.
 * Blocks that no allocation needs, and whose GPU work is over, stay mapped, so that memory that is needed
 * again costs nothing; the daemon may take them for other processes at any time. A thread of the
 * library's sees to it: it begins when there is first something to see to, blocks all signals, and is joined by
 * gpumem_disconnect and at the process's exit; GPUMEM_SERVICE_THREAD=0 in the environment: there is none,
 * and those who free do it, at each 128th free or so, rarely twice in 3 ms. With GPUMEM_CACHE_SIZE, such as
 * 0 or 512MiB, the daemon takes nothing, and what is empty beyond that size, for each pool, is given back
 * instead.
 * GPUMEM_MEMORY_FRACTION, more than 0 and 1 at most, sets the client's own limit on each device to
 * that part of its memory; see gpumem_set_limit.
 * GPUMEM_DEBUG, such as fill,guard, has the client look for errors of the program: see "Debugging" at the
 * beginning of this file.
 * GPUMEM_FENCE, streams, context or own, says what freed memory waits for: see "Streams" there.
 * Errors: GPUMEM_E_DISCONNECTED, GPUMEM_E_VERSION, GPUMEM_E_DENIED, GPUMEM_E_TOO_MANY,
 * GPUMEM_E_BAD_FRACTION (GPUMEM_MEMORY_FRACTION), _BAD_CACHE_SIZE, _BAD_SERVICE_THREAD, _BAD_DEBUG, _BAD_FENCE, -EINVAL
 * (struct_size), -ENAMETOOLONG (the socket's path), other -errno; gpumem_connect_refusal has more about each.
 * `options` may be NULL. */
GPUMEM_API int gpumem_connect(const struct gpumem_options *options,
                              struct gpumem_client **ret_client);

/* Gives everything back that is empty, unmaps the rest and ends the connection. Memory that the
 * application still uses becomes invalid; its GPU work must be over. NULL is legal, and the default client stays
 * as it is. */
GPUMEM_API void gpumem_disconnect(struct gpumem_client *client);

/* The default client, as a call with client NULL gets it. Errors: as gpumem_connect. */
GPUMEM_API int gpumem_default_client(struct gpumem_client **ret_client);

/* The library's version, such as "0.2.0". Never NULL; always valid. */
GPUMEM_API const char *gpumem_version(void);

/* Memory for use in `stream`'s order. Aligned to 512 bytes or more; contents undefined. Bytes of
 * an earlier allocation of the same tenant may be in it, never those of another tenant.
 * Pinned memory needs no context and no driver: without one it is shared memory that the CPU uses,
 * until gpumem_register. Before pinned memory is refused, what is free here and registered is
 * unregistered, as by gpumem_flush. Until then the client is charged for it, also for what the daemon took of
 * it for others of the tenant who have given it back since.
 * Where gpumemd has it made by the driver (--pinned-backing vmm) a process
 * without CUDA gets _UNSUPPORTED.
 * Device memory allocated in a stream that captures is the graph's: freed in the same stream of the same
 * capture it can be had again there, in the graph's order; it is nobody else's before the graph, its clones
 * and its executables are gone, their work is over, and it has been freed. So is pinned memory, but what of
 * that is freed in the capture is nobody's before the graph is gone: the graph reads again what the CPU has
 * written there. Shareable memory is not allocated in captures: other processes hold it that know no graph, and
 * its free would take it out of the graph's reach; it can be allocated before.
 * Errors: GPUMEM_E_REFUSED, _LIMIT, _TOO_LARGE, _DEVICE_FULL, _TIMED_OUT, _NO_POOL, _NO_DRIVER,
 * _DENIED (gpumemd serves one tenant only there), _DRIVER (it failed, or the device is in error, or lost),
 * _STALLED (the driver does not answer gpumemd at present, and this needs it),
 * _TOO_MANY (blocks or leases: gpumem_last_refusal says which),
 * _NO_CONTEXT, _WRONG_STREAM, _UNSUPPORTED (flags; a stream that captures: shareable
 * memory, or a capture that is lost), _BAD_REQUEST (n_bytes
 * 0, unknown kind), _DISCONNECTED, _FORKED, -EINVAL (struct_size; no such stream, if the driver
 * notices), -E2BIG (fields of a later version that are not 0). _WRONG_STREAM also means that the
 * current context, whose default stream NULL is, belongs to another device than `place`. */
GPUMEM_API int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                            void **ret_pointer);

/* gpumem_alloc with the default client and without waiting: n_bytes of device memory for use in `stream`, on its
 * device; or of pinned memory on the nearest NUMA node. Errors: as gpumem_alloc, and as gpumem_connect.
 *     r = gpumem_malloc(64 << 20, stream, &pointer);
 *     (work in stream)
 *     gpumem_free(NULL, pointer, stream); */
GPUMEM_API int gpumem_malloc(uint64_t n_bytes, void *stream, void **ret_pointer);
GPUMEM_API int gpumem_malloc_pinned(uint64_t n_bytes, void **ret_pointer);

/* Makes pinned memory that was allocated or attached without a current context known to the driver,
 * so that copies need no staging; what was so with one is known already. Needs a current context,
 * and afterwards holds in all of them. The memory must not be freed meanwhile. On failure nothing
 * has changed.
 * Errors: GPUMEM_E_NOT_OURS, _BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER, _FORKED,
 * -EIO. */
GPUMEM_API int gpumem_register(struct gpumem_client *client, void *pointer);

/* Lets device `peer` read and write device memory of `place`: whatever this client has there, now and later,
 * allocated or attached, until gpumem_disconnect. Both are devices of this process by their CUDA ordinal, or
 * GPUMEM_NEAREST for the current context's. One direction only, and no context is needed. Other processes
 * that hold the same memory call it for themselves. Doing it again, or for a device and itself, does
 * nothing. It waits for allocations under way that need blocks, not for any GPU work. To map a block takes
 * longer afterwards: on two H200s the driver gives access to 2 MiB in 1 ms and to 1 GiB in 10, instead of 0.03
 * and 0.6.
 * What streams of another device use is ordered as among streams of one: gpumem_record_use, or a free in
 * the stream of its last use.
 * Errors: GPUMEM_E_UNSUPPORTED (the driver says that the devices are no peers, or gpumemd serves `place` as
 * CUDA IPC handles; gpumem_last_refusal says which), _NO_POOL (no such device in this process, or no pool
 * for `place`), _NO_CONTEXT (GPUMEM_NEAREST), _NO_DRIVER, _FORKED, -EINVAL, -EIO and other faults of the
 * driver, with which what is mapped later is as before. */
GPUMEM_API int gpumem_enable_peer(struct gpumem_client *client, int32_t place, int32_t peer);

/* Ends an allocation. `stream` is alive and orders the free: work that uses the memory was
 * enqueued there, or is ordered before this point of it. Device memory freed in the stream that it
 * was allocated for can be had again there at once. In three cases the call waits for the stream
 * first: the memory is pinned, it was allocated for another stream, or GPUMEM_CACHE_SIZE is
 * passed. In the last case, and for shareable memory, it waits for the whole context where a stream is registered.
 * NULL pointers are legal.
 * In a stream that captures, the free of what was not allocated in that stream in that capture, or of
 * pinned memory, does not
 * wait, but the memory is nobody's before the capture is over and a later call allocates or frees in the
 * stream; or the graph is gone, and gpumem_flush is called or memory is lacking. Until then the stream is
 * not to be destroyed while it has work from before the capture: it is known by its handle only.
 * Errors: GPUMEM_E_NOT_OURS (nothing is freed), _ATTACHED (the pointer is to be detached; nothing
 * is freed), _NO_CONTEXT (a default stream without a current context; nothing is freed),
 * _UNSUPPORTED (a capture that is lost; nothing is freed), _FORKED, -EINVAL (no such stream, if the
 * driver notices; nothing is freed), -EIO (the GPU's work failed; nothing is freed). */
GPUMEM_API int gpumem_free(struct gpumem_client *client, void *pointer, void *stream);

/* The allocation at `pointer` is used in `stream` too, besides the stream that will order its free. The
 * free then does not wait, but the memory is nobody else's before both have come to that point: the
 * stream must live until then. To be called once for each such stream, at any time before the free; the
 * stream that the memory was allocated for need not be told of. Shared memory's free and detach wait.
 * Errors, with which nothing has changed: GPUMEM_E_NOT_OURS, _NO_CONTEXT (a default stream without a
 * current context), _UNSUPPORTED (a stream that captures; CU_STREAM_PER_THREAD, unless the memory was allocated for
 * this thread's), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_record_use(struct gpumem_client *client, const void *pointer, void *stream);

/* Registers a stream, which lives until gpumem_stream_unregister; NULL is the default stream of the current context.
 * Memory that is freed from now on, in any stream of the same context, does not leave the stream that it was
 * allocated for before the work is over that is in a registered stream at the free: see "Streams" above. Pinned
 * memory is not had again in its own stream before that, either, since its next owner writes with the CPU.
 * Register streams that use memory of other streams, and no streams in stock: each free that lets memory go records an
 * event in every registered stream, and streams share the GPU's channels. With 65 registered streams, 60 of them never
 * used, an FSDP step on two H200s took 30 ms instead of 24 with five registered.
 * A stream may be registered several times, and is then unregistered as often. While a registered stream captures,
 * memory that is freed in its context stays in its streams. The next gpumem_alloc, gpumem_free or gpumem_flush after
 * the capture, of any thread, lets it go. The library ends no capture, with one exception: the default stream, if it
 * is registered, is recorded by every thread that frees. As any work there, that ends the captures that other threads
 * begin in blocking streams in that moment.
 * While work of a registered stream does not end, memory that is freed in its context stays in its streams: other
 * streams and processes do not have it, and calls that wait for all work, as gpumem_flush, do not return.
 *     gpumem_stream_register(client, reader);
 *     gpumem_free(client, pointer, writer);       (reader still uses the memory)
 *     cuStreamWaitEvent(writer, read_done, 0);    (before writer has it again)
 * Errors: GPUMEM_E_CAPTURES (it captures), _UNSUPPORTED (CU_STREAM_PER_THREAD), _NO_CONTEXT (a default stream
 * without a current context), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_stream_register(struct gpumem_client *client, void *stream);

/* The stream, which is alive, is registered once less; after the last time it may be destroyed. What it has to do
 * until now still counts. Errors: GPUMEM_E_NOT_REGISTERED, and as gpumem_stream_register, with which nothing has
 * changed. */
GPUMEM_API int gpumem_stream_unregister(struct gpumem_client *client, void *stream);

/* gpumem_free for a caller who has no stream: waits for all work of the context in which the memory
 * was allocated, and of the calling thread's current one. Work of other contexts must be over. To wait, the
 * library has the driver register a page of host memory, and else allocate a little device memory, and take it
 * back. Errors as gpumem_free, and what the driver says when it has neither, such as GPUMEM_E_DEVICE_FULL: nothing
 * is freed, and the caller may try again. */
GPUMEM_API int gpumem_free_sync(struct gpumem_client *client, void *pointer);

/* gpumem_free in the order of the stream that the memory was allocated for, for a caller that has neither that stream
 * nor a context: a garbage collector, say. The memory's last use is in that stream, or ordered before the call
 * there. Device memory does not wait: the stream has it again at once. If the stream is registered, this is
 * gpumem_free in it, and it must stay registered during the call. Any other stream may be gone by now. Then other
 * streams and processes have the memory after the next gpumem_free in that stream; or when the library waits for the
 * whole context, as gpumem_flush does, and an allocation that would be refused otherwise.
 * Where GPUMEM_CACHE_SIZE is passed the call waits for the context.
 * This is gpumem_free_sync for pinned memory, for shareable memory, and for memory of an unregistered stream that
 * other streams use (gpumem_record_use). Errors: as gpumem_free_sync. */
GPUMEM_API int gpumem_free_in_order(struct gpumem_client *client, void *pointer);

/* Ends an allocation as cuMemFree does, but does not wait: no stream has the memory again, its own neither, before
 * the work is over that is now in the registered streams of its context. Its own stream is one of them, or
 * GPUMEM_FENCE is "context". The default stream, if it is registered, stands for all blocking streams.
 * Otherwise, for pinned and shareable memory, and for memory of graphs, this is gpumem_free_sync.
 * Errors: as gpumem_free_sync. */
GPUMEM_API int gpumem_free_later(struct gpumem_client *client, void *pointer);

/* Work that is enqueued in `stream` from now on waits for the work that is in `producer` now. NULL is the default
 * stream of the current context. One that captures and one that does not are no pair. Errors:
 * GPUMEM_E_UNSUPPORTED (captures), _NO_CONTEXT (a default stream without a current context), _NO_DRIVER,
 * _FORKED, -EINVAL (no such stream, if the driver notices). */
GPUMEM_API int gpumem_stream_wait(struct gpumem_client *client, void *stream, void *producer);

/* Graph pools: memory that many graphs share, as programs need that capture dozens of them.
 * A capture that begins in a stream in which a pool is open allocates from the pool, also in the streams that
 * join it, which have no other pool open; what it frees the pool's next capture has. Outside of captures, device
 * memory that is allocated in a stream in which the pool is open is the pool's too, so that a program can warm
 * up there. Pinned memory, shareable memory and what other streams allocate are not.
 * The application promises that graphs of a pool, and work outside of captures on its memory, run one after
 * another, never at once. When a graph runs it may overwrite what graphs captured later have written, even where
 * that is still allocated, and whatever was in memory that was freed before it was captured.
 * Nobody else has the pool's memory before the pool is open nowhere, all graphs that were captured with it,
 * their clones and executables are gone, their work is over, and nothing of it is allocated.
 *
 * `id` is the application's choice, below 2^63; a begin with the id of a pool that is there goes on with that
 * one. 0: a new pool, whose id is `*ret_id`, which otherwise may be NULL. A pool may be open in several
 * streams; a stream has one at most, and lives until the end. Whether what another thread allocates in the
 * stream during the call is the pool's is not said.
 * Errors: GPUMEM_E_GRAPH_POOL_OPEN (the stream has one), _CAPTURES (the stream captures already), _NO_GRAPH_POOL
 * (an id from 2^63 on that was not given here), _UNSUPPORTED (a default stream), _BAD_REQUEST (id 0 without
 * ret_id), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the driver notices), -ENOMEM. */
GPUMEM_API int gpumem_graph_pool_begin(struct gpumem_client *client, uint64_t id, void *stream,
                                       uint64_t *ret_id);

/* The pool is not open in the stream any more; graphs and allocations keep it. If memory was allocated
 * outside of captures there, this waits for the stream.
 * Errors: GPUMEM_E_NO_GRAPH_POOL (unknown, or not open in that stream), _CAPTURES (the stream captures: the
 * capture is ended first), _UNSUPPORTED (a default stream), _NO_DRIVER, _FORKED, -EINVAL (no such stream, if the
 * driver notices), with which it is open as before. Any other is the driver's, of waiting: it is ended, and
 * nobody else has its memory before gpumem_flush has waited for all work, or the context is gone. */
GPUMEM_API int gpumem_graph_pool_end(struct gpumem_client *client, uint64_t id, void *stream);

/* 128 random bits. Who knows them, and is meant by them, may attach what they were made for: a
 * secret, to be handed over as one. */
#define GPUMEM_TOKEN_BYTES 16
struct gpumem_token {
        uint8_t bytes[GPUMEM_TOKEN_BYTES];
};

/* Lets more than the own tenant attach: the processes of `uid` too. */
#define GPUMEM_SHARE_GRANT UINT32_C(1)

/* Leave a field 0 for its default. Set struct_size to sizeof(struct gpumem_share_options). */
struct gpumem_share_options {
        size_t struct_size;
        uint32_t flags; /* GPUMEM_SHARE_GRANT, or 0 */
        uint32_t uid;   /* with GPUMEM_SHARE_GRANT */
        /* How long the memory stays when its owner has freed it, or has ended; see gpumem_share. At most 60,000;
         * 0: not at all. */
        uint32_t keep_ms;
};

/* Lets other processes of the same tenant, and of one other user where `options` says so, attach an
 * allocation that was made with GPUMEM_SHAREABLE. The token is good for any number of attaches,
 * until gpumem_unshare, or until nobody holds the memory any more. Every call makes a token of its
 * own. `options` may be NULL.
 * The allocation's owner may free it, or end, before the others have detached: the memory lives
 * until its last holder lets go of it, and is charged to the one who has held it longest.
 * With keep_ms the owner need not wait until the other process has attached. When the owner has freed the memory, or has
 * ended, the daemon holds the memory and charges the owner's tenant. It lets go when another client has attached by this
 * token, when the time is over, or at gpumem_unshare. If a client attached before the owner's end, the daemon keeps
 * nothing. What it keeps ends with the daemon. A tenant has 1024 such tokens at a time.
 * Errors: GPUMEM_E_NOT_OURS, _NOT_SHAREABLE, _TOO_MANY (tokens of one allocation, or with keep_ms), _UNSUPPORTED
 * (flags; keep_ms, with an older gpumemd), _BAD_REQUEST (uid -1; keep_ms above 60,000), _OUTLIVED (the daemon that the
 * memory is of has gone), _DISCONNECTED, _FORKED. */
GPUMEM_API int gpumem_share(struct gpumem_client *client, const void *pointer,
                            const struct gpumem_share_options *options,
                            struct gpumem_token *ret_token);

/* Maps an allocation that another process shares, or this one; n_bytes are as the owner asked for
 * them. It is one memory: what one holder writes the others read, ordered by whatever the processes
 * agree on. Pinned memory needs no CUDA driver, and is registered with it when a context is
 * current; device memory needs a driver that sees the device. The pointer is given to gpumem_detach
 * in the end, not to gpumem_free. The bytes are the owner's allocation: gpumem_get_stats counts
 * them there. Errors: GPUMEM_E_NO_TOKEN (unknown, withdrawn, or not for this user), _NO_DRIVER,
 * _NO_POOL (the device is not visible here), _LIMIT (the daemon's, for what the caller would be
 * charged if it were the last holder), _TOO_MANY, _DISCONNECTED, _FORKED, -EIO. */
GPUMEM_API int gpumem_attach(struct gpumem_client *client, const struct gpumem_token *token,
                             void **ret_pointer, uint64_t *ret_n_bytes);

/* Ends what gpumem_attach began. Waits for `stream`, in whose order the last use is. NULL pointers
 * are legal. Errors, with which nothing is detached: as gpumem_free; GPUMEM_E_NOT_ATTACHED (the
 * pointer is to be freed). */
GPUMEM_API int gpumem_detach(struct gpumem_client *client, void *pointer, void *stream);

/* Nobody attaches by this token any more; who has attached keeps the memory. Every process of the
 * tenant that shared may do it.
 * Errors: GPUMEM_E_NO_TOKEN, _DISCONNECTED, _FORKED. */
GPUMEM_API int gpumem_unshare(struct gpumem_client *client, const struct gpumem_token *token);

/* A token as text: 32 hexadecimal digits and a NUL. Parsing takes exactly that, in either case:
 * GPUMEM_E_BAD_REQUEST for anything else. */
#define GPUMEM_TOKEN_TEXT_BYTES 33
GPUMEM_API const char *gpumem_token_format(const struct gpumem_token *token,
                                           char *text /* GPUMEM_TOKEN_TEXT_BYTES */);
GPUMEM_API int gpumem_token_parse(const char *text, struct gpumem_token *ret_token);

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
        uint64_t n_splits; /* of holes, by allocations, in streams that are known */
        uint64_t n_merges; /* of holes, by frees */
};

/* Of one pool: a device by its CUDA ordinal, or a NUMA node's pinned memory.
 * GPUMEM_NEAREST is a place as in gpumem_request: for devices that of the current context.
 * Errors: GPUMEM_E_BAD_REQUEST, _NO_POOL, _NO_CONTEXT and _NO_DRIVER (GPUMEM_DEVICE with
 * GPUMEM_NEAREST), _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                                struct gpumem_stats *ret_stats);

/* This client's peaks begin anew at what it has. Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_reset_peaks(struct gpumem_client *client, enum gpumem_kind kind,
                                  int32_t place);

/* The same and more as named values: as many as fit into n_room, and in *ret_n how many there are. Names are of the
 * fields of gpumem_stats, without n_, such as "requested_peak_bytes"; and "pressures", "refusals" and "revocations",
 * which count events of the client. The last is "available_bytes", what the client could still have of the pool: unused
 * bytes of its blocks, what the daemon caches, and what the daemon may still take from the driver, within the
 * client's own limit. The call asks the daemon for it if there is room, and leaves it out if the daemon does not
 * say. Quotas of the tenant are not counted. A later version may have more. Names are always valid; n_room may be 0.
 * Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_get_figures(struct gpumem_client *client, enum gpumem_kind kind,
                                  int32_t place, const char **ret_names, uint64_t *ret_values,
                                  size_t n_room, size_t *ret_n);

/* How often memory was short for this client: how many GPUMEM_EVENT_PRESSURE there were, told or not. A program that
 * keeps memory of its own polls it, and gives some up when it has grown. 0 without a client. */
GPUMEM_API uint64_t gpumem_pressure(struct gpumem_client *client);

/* A tag's name with its NUL, at most. */
#define GPUMEM_TAG_BYTES 64

/* The calling thread's allocations of this client count under `tag` from now on; NULL: under none. A thread has one
 * tag, of the client that it was set for last. They count there
 * until they are freed, by whatever thread. While a thread has a tag, or had one, calls of all threads take some
 * 0.1 us longer. Tags are kept until gpumem_disconnect.
 * Errors: GPUMEM_E_BAD_REQUEST (an empty tag, or one of GPUMEM_TAG_BYTES or more), _TOO_MANY (256 tags),
 * _FORKED, -ENOMEM. */
GPUMEM_API int gpumem_set_tag(struct gpumem_client *client, const char *tag);

/* What counts under one tag. */
struct gpumem_tag_stats {
        size_t struct_size; /* set by the caller */
        uint64_t n_live;    /* allocations */
        uint64_t n_requested_bytes;
        uint64_t n_requested_peak_bytes;
        uint64_t n_allocations; /* ever */
        uint64_t n_frees;       /* ever */
};

/* Errors: GPUMEM_E_NO_TAG, _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_get_tag_stats(struct gpumem_client *client, const char *tag,
                                    struct gpumem_tag_stats *ret_stats);

/* What a pointer is. Bytes from `base` on are the allocation's. */
struct gpumem_info {
        size_t struct_size; /* set by the caller */
        enum gpumem_kind kind;
        int32_t place; /* device: CUDA ordinal in this process; pinned: NUMA node */
        void *base;    /* as gpumem_alloc gave it */
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes; /* requested, rounded up to 512; the block, if it is shared */
        void *block_base;           /* the block that it was cut from */
        uint64_t n_block_bytes;
        uint64_t block; /* the block's number, as gpumemctl blocks shows it */
        /* Pinned memory only: the driver knows it, so that the device reads it at full speed and
         * copies do not stage it. 0 when there was no context to register it in; 1 also for what
         * the driver made itself (gpumemd --pinned-backing vmm). */
        uint32_t is_registered;
        uint32_t is_attached; /* another process's, from gpumem_attach */
        uint32_t is_held;     /* it was leased from a daemon that has gone since */
};

/* The allocation that a pointer lies in, at its start or inside it.
 * Errors: GPUMEM_E_NOT_OURS (no live allocation of this client), _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_describe(struct gpumem_client *client, const void *pointer,
                               struct gpumem_info *ret_info);

#define GPUMEM_TEXT_BYTES 400

struct gpumem_refusal {
        size_t struct_size; /* set by the caller */
        int code;           /* what the call gave */
        enum gpumem_kind
                kind; /* these three as they were asked for; of gpumem_share and gpumem_attach 0 */
        int32_t place;
        uint64_t n_bytes;
        /* For people: what the daemon said, as far as it was asked. Why, who holds the memory (of the
         * caller's tenant the largest clients by name, pid and bytes; of others the sum), what to do. */
        char text[GPUMEM_TEXT_BYTES];
};

/* Why the calling thread's last gpumem_alloc, gpumem_reserve, gpumem_share, gpumem_attach or gpumem_enable_peer that failed did so,
 * with this client. For want of memory, by a limit, or because the device is in error or another user's: the text says what
 * the daemon said. Without a daemon it names the socket. Of a call that was wrong (GPUMEM_E_BAD_REQUEST, _NO_POOL,
 * _WRONG_STREAM, _UNSUPPORTED, -EINVAL of struct_size) it names the value and what is allowed. Otherwise it is
 * gpumem_strerror's. Calls that succeed change nothing here. `client` NULL is the default client; before it has
 * connected, this is gpumem_connect_refusal.
 * Errors: GPUMEM_E_NO_REFUSAL, _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_last_refusal(struct gpumem_client *client,
                                   struct gpumem_refusal *ret_refusal);

/* Why the calling thread's last gpumem_connect failed, or that of the default client: with the socket, or the variable
 * and what is allowed in it; kind, place and n_bytes are 0. Errors: GPUMEM_E_NO_REFUSAL, -EINVAL (struct_size). */
GPUMEM_API int gpumem_connect_refusal(struct gpumem_refusal *ret_refusal);

enum gpumem_event_kind {
        /* A pool had no room for the blocks that the library wanted. What this process keeps and does
         * not use is given up, and exactly what is needed is asked for. memory, place, n_bytes: of the
         * allocation. */
        GPUMEM_EVENT_PRESSURE = 1,
        /* gpumem_alloc refused; result, memory, place, n_bytes, text as in gpumem_refusal. */
        GPUMEM_EVENT_REFUSED = 2,
        /* Blocks that this process kept and did not use were taken for others: n_bytes of them in the pool of
         * memory and place. What is allocated is never taken. */
        GPUMEM_EVENT_REVOKED = 3,
        /* The connection has ended. What is allocated stays; the next allocation that needs a block
         * connects anew. */
        GPUMEM_EVENT_DAEMON_LOST = 4,
        GPUMEM_EVENT_DAEMON_BACK = 5,
        /* The driver, or NVML, says to the daemon that the device of this pool is lost: nothing is served
         * there until it is back, and what was there is not served again. memory, place. */
        GPUMEM_EVENT_DEVICE_LOST = 6,
        GPUMEM_EVENT_DEVICE_BACK = 7,
};

/* Fields that an event has no use for are 0. */
struct gpumem_event {
        size_t struct_size; /* set by the library: later fields may be there */
        enum gpumem_event_kind kind;
        int result;
        enum gpumem_kind memory;
        int32_t place;
        uint64_t n_bytes;
        uint32_t n_suppressed; /* events of this kind since the last one that were not told */
        char text[GPUMEM_TEXT_BYTES];
};

typedef void gpumem_event_callback(const struct gpumem_event *event, void *argument);

/* Has `callback` told what happens; NULL: nothing. At most one event of a kind is told in a second.
 * No thread of the library's own is ever in it: a thread that finds something out while it allocates,
 * frees or asks tells it before that call returns, holding no lock; what the library's own threads find
 * out is told by the next such call. So several threads may be in the callback at once, and the end of a
 * daemon is told when somebody needed it.
 * In the callback every function may be called but this one and gpumem_disconnect, which does
 * nothing there; what such calls find out is told by a later call.
 * When this returns the callback that was set before is not running any more, nor will be.
 * Errors: GPUMEM_E_IN_CALLBACK, _FORKED. */
GPUMEM_API int gpumem_set_event_callback(struct gpumem_client *client,
                                         gpumem_event_callback *callback, void *argument);

/* Reserves n_bytes of device memory for a burst, as a whole or not at all.
 *     r = gpumem_reserve(client, 0, burst_bytes, 60000);
 *     (allocate, work, free)
 *     gpumem_reserve(client, 0, 0, 0);
 * While the reservation stands, no other client gets this memory. This client's allocations on the device ask the
 * daemon for nothing, as long as they add no more than n_bytes to what is allocated now. Freed memory belongs to the
 * reservation again; another stream gets it after the work that was enqueued at its free.
 * The memory is one run of addresses, so one allocation may take all of it. A stream takes whole blocks, each of about
 * n_bytes / 32 and of 4 MiB at least. A program that allocates in several streams, or in sizes that do not divide a
 * block, reserves one block more for each.
 * The client's idle memory counts first, if it is in one run. If the daemon has not enough for the rest, the client
 * gives all idle memory back, as gpumem_flush does, and asks for n_bytes again. Then the daemon waits up to wait_ms.
 * The client holds nothing while it waits.
 * A device has one reservation of a client. The next call ends it, also one that fails; n_bytes 0 does nothing else.
 * gpumem_flush and gpumem_free_all_blocks leave the reservation alone. It lasts when another daemon follows, and until
 * gpumem_disconnect. It is charged and limited as allocated memory is.
 * All processes that hold memory of a device may wait for more of it, here or in gpumem_alloc. None would give any
 * back. When nothing has moved for a second, the daemon refuses the last request with _REFUSED, and the refusal's text
 * says so. A process waits while one of its threads does: in that second another thread may free. A process that
 * holds all of the memory is not refused so, since it waits for its own threads.
 * Errors: as gpumem_alloc, and those of gpumem_get_stats for `place`; GPUMEM_E_UNSUPPORTED: the device is served as CUDA
 * IPC handles, or gpumemd is older than this. gpumem_last_refusal has the text. */
GPUMEM_API int gpumem_reserve(struct gpumem_client *client, int32_t place, uint64_t n_bytes,
                              uint32_t wait_ms);

#define GPUMEM_NO_LIMIT UINT64_MAX

/* The client's own limit: blocks that would take what it has reserved in this pool beyond n_bytes
 * are not asked for, and gpumem_alloc gives GPUMEM_E_LIMIT. What is reserved already stays. A block
 * may be an eighth larger than asked for, and pass the limit by that. The daemon's limits hold
 * besides. Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_set_limit(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                                uint64_t n_bytes);

/* Gives the daemon every block that no allocation of this client needs, after waiting for the work of
 * the contexts that blocks were freed in. Pinned memory is unregistered with it, and what the daemon took
 * meanwhile of what was idle, which makes the driver wait for every running kernel; nothing else does so
 * but gpumem_free_all_blocks, gpumem_disconnect, and an allocation that would be refused. `ret_freed_bytes` may be NULL. Errors: GPUMEM_E_FORKED. */
GPUMEM_API int gpumem_flush(struct gpumem_client *client, uint64_t *ret_freed_bytes);

enum gpumem_scope {
        GPUMEM_SCOPE_TENANT = 1, /* blocks cached for the caller's tenant */
        GPUMEM_SCOPE_NODE = 2,   /* every tenant's: for root, or over the admin socket */
};

/* Gives every block in the scope that is not in use back to the driver; returns when that has happened. The caller's
 * own client is flushed first, as by gpumem_flush. Of other processes it takes what is cached, or idle in their
 * leases. What another process keeps registered, or does not unmap within a second, stays there until it does, and is
 * not counted; gpumemctl free-all says which process keeps what. At least ret_freed_bytes have gone back: it counts no
 * byte twice, and where the daemon caches nothing it is the larger of the caller's own bytes and the others'.
 * Errors: GPUMEM_E_DENIED, _BAD_REQUEST, _DISCONNECTED, _FORKED. `ret_freed_bytes` may be NULL. */
GPUMEM_API int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                                      uint64_t *ret_freed_bytes);

/* One sentence for any result of these functions. Never NULL; valid for ever. */
GPUMEM_API const char *gpumem_strerror(int result);

#ifdef __cplusplus
}
#endif

#endif
