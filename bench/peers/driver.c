/* The driver's own memory: cuMemAlloc, and cuMemAllocAsync. */
#include "base/clock.h"
#include "base/err.h"
#include "bench/peers/player.h"
#include "bench/timing.h"

#include <string.h>
#include <time.h>

#define CHECK(player, name, member, ...) \
        stage_check(&(player)->stage, name, (player)->stage.calls.member(__VA_ARGS__))

static const char *explain(int r)
{
        return r < 0 && r != -ENOTRECOVERABLE && r != -EIO ? strerror(-r) : stage_failure();
}

static int open_driver(struct player *player)
{
        (void)player;
        return 0;
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

/* The driver does not wait for memory: it is asked again. */
static int wait_for(struct player *player, uint64_t n_bytes, double seconds, void **ret_pointer)
{
        const struct timespec pause = {.tv_nsec = 100000};
        uint64_t end_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
        int r;

        while ((r = player->allocator->alloc(player, 0, n_bytes, ret_pointer)) &&
               clock_now_ns() < end_ns)
                (void)nanosleep(&pause, NULL);
        return r;
}

static int drop_nothing(struct player *player)
{
        return player_explain(player, -ENOTSUP, "it keeps nothing");
}

static int pin(struct player *player, uint64_t n_bytes, void **ret_pointer)
{
        return CHECK(player, "cuMemHostAlloc", host_alloc, ret_pointer, n_bytes,
                     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

static int unpin(struct player *player, void *pointer)
{
        return CHECK(player, "cuMemFreeHost", host_free, pointer);
}

const struct allocator allocator_driver = {
        .name = "cuMemAlloc",
        .n_steps = 64,
        .n_thread_steps = 32,
        .open = open_driver,
        .alloc = alloc,
        .free = end,
        .wait = wait_for,
        .drop = drop_nothing,
        .pin = pin,
        .unpin = unpin,
        .explain = explain,
};

/* It keeps what is freed, as those do who want it to be fast: by default it gives all back whenever
 * somebody waits for a stream. */
static int open_async(struct player *player)
{
        cuuint64_t keep = UINT64_MAX;
        int r;

        if (!player->stage.calls.alloc_async || !player->stage.calls.free_async ||
            !player->stage.calls.pool_of || !player->stage.calls.pool_set ||
            !player->stage.calls.pool_trim)
                return player_explain(player, -ENOTSUP, "the driver has no cuMemAllocAsync");
        r = CHECK(player, "cuDeviceGetDefaultMemPool", pool_of, &player->pool,
                  player->stage.device);
        return r ? r
                 : CHECK(player, "cuMemPoolSetAttribute", pool_set, player->pool,
                         CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

static int alloc_async(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer)
{
        CUdeviceptr address;
        int r = CHECK(player, "cuMemAllocAsync", alloc_async, &address, n_bytes,
                      player->stage.streams[stream]);

        if (!r)
                *ret_pointer = (void *)(uintptr_t)address;
        return r;
}

static int free_async(struct player *player, unsigned stream, void *pointer)
{
        return CHECK(player, "cuMemFreeAsync", free_async, (CUdeviceptr)(uintptr_t)pointer,
                     player->stage.streams[stream]);
}

static int drop_pool(struct player *player)
{
        int r = CUDA_CALL(&player->stage.cuda, cuCtxSynchronize);

        return r ? r : CHECK(player, "cuMemPoolTrimTo", pool_trim, player->pool, 0);
}

const struct allocator allocator_async = {
        .name = "cuMemAllocAsync",
        .n_steps = 1024,
        .n_thread_steps = 8192,
        .open = open_async,
        .alloc = alloc_async,
        .free = free_async,
        .wait = wait_for,
        .drop = drop_pool,
        .explain = explain,
};
