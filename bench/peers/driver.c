/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own memory: cuMemAlloc, and cuMemAllocAsync. Calls that the library does not use are looked
 * up here. */
#include <dlfcn.h>

#include "base/err.h"
#include "bench/peers/player.h"

/* Names pass through <cuda.h>'s macros first. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

/* NULL: the driver lacks the call. */
static struct {
        __typeof__(cuMemAlloc) *alloc;
        __typeof__(cuMemFree) *free;
        __typeof__(cuMemAllocAsync) *alloc_async;
        __typeof__(cuMemFreeAsync) *free_async;
        __typeof__(cuDeviceGetDefaultMemPool) *pool_of;
        __typeof__(cuMemPoolSetAttribute) *pool_set;
} calls;

#define CHECK(player, name, member, ...) \
        cuda_result(&(player)->cuda, name, calls.member(__VA_ARGS__))

static const char *explain(int r)
{
        (void)r;
        return cuda_failure();
}

static int find_calls(void)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        if (!library)
                return -ENOENT;
#define FIND(member, call) calls.member = (__typeof__(calls.member))dlsym(library, NAME_OF(call))
        FIND(alloc, cuMemAlloc);
        FIND(free, cuMemFree);
        FIND(alloc_async, cuMemAllocAsync);
        FIND(free_async, cuMemFreeAsync);
        FIND(pool_of, cuDeviceGetDefaultMemPool);
        FIND(pool_set, cuMemPoolSetAttribute);
#undef FIND
        return 0;
}

static int open_driver(struct player *player)
{
        int r = find_calls();

        if (!r && (!calls.alloc || !calls.free))
                r = -ENOTSUP;
        return r ? player_explain(player, r, "the driver has no cuMemAlloc") : 0;
}

static int alloc(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer)
{
        CUdeviceptr address;
        int r = CHECK(player, "cuMemAlloc", alloc, &address, n_bytes);

        (void)stream;
        if (!r)
                *ret_pointer = (void *)(uintptr_t)address;
        return r;
}

static int end(struct player *player, unsigned stream, void *pointer)
{
        (void)stream;
        return CHECK(player, "cuMemFree", free, (CUdeviceptr)(uintptr_t)pointer);
}

const struct allocator allocator_driver = {
        .n_steps = 64,
        .n_thread_steps = 32,
        .open = open_driver,
        .alloc = alloc,
        .free = end,
        .explain = explain,
};

/* The driver's pool keeps freed memory, as fast programs configure it. By default it gives everything back
 * when a stream is waited for. */
static int open_async(struct player *player)
{
        cuuint64_t keep = UINT64_MAX;
        CUmemoryPool pool;
        int r = find_calls();

        if (r || !calls.alloc_async || !calls.free_async || !calls.pool_of || !calls.pool_set)
                return player_explain(player, -ENOTSUP, "the driver has no cuMemAllocAsync");
        r = CHECK(player, "cuDeviceGetDefaultMemPool", pool_of, &pool, player->device);
        return r ? r
                 : CHECK(player, "cuMemPoolSetAttribute", pool_set, pool,
                         CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

static int alloc_async(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer)
{
        CUdeviceptr address;
        int r = CHECK(player, "cuMemAllocAsync", alloc_async, &address, n_bytes,
                      player->streams[stream]);

        if (!r)
                *ret_pointer = (void *)(uintptr_t)address;
        return r;
}

static int free_async(struct player *player, unsigned stream, void *pointer)
{
        return CHECK(player, "cuMemFreeAsync", free_async, (CUdeviceptr)(uintptr_t)pointer,
                     player->streams[stream]);
}

const struct allocator allocator_async = {
        .n_steps = 1024,
        .n_thread_steps = 8192,
        .open = open_async,
        .alloc = alloc_async,
        .free = free_async,
        .explain = explain,
};
