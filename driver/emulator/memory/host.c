/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/memory/host.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/stream.h"

#define REGISTER_FLAGS                                                \
        (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
         CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)
#define ALLOC_FLAGS \
        (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

/* Under the emulator's lock. */
static struct intervals host_ranges;

struct host_range *host_find_locked(uint64_t address)
{
        return (struct host_range *)intervals_find(&host_ranges, address);
}

bool host_is_pinned(uint64_t address, uint64_t n_bytes)
{
        const struct host_range *range;
        bool pinned;

        emulator_lock();
        range = host_find_locked(address);
        pinned = range && interval_end(&range->range) - address >= n_bytes;
        emulator_unlock();
        return pinned;
}

bool host_is_divided(uint64_t address, uint64_t n_bytes)
{
        const struct host_range *first, *last;

        emulator_lock();
        first = host_find_locked(address);
        last = n_bytes ? host_find_locked(address + n_bytes - 1) : first;
        emulator_unlock();
        return first && last && first != last;
}

static CUresult host_insert(void *bytes, size_t n_bytes, enum host_origin origin, unsigned flags,
                            struct context *context)
{
        struct host_range *range = malloc(sizeof(*range));
        int r;

        if (!range)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *range = (struct host_range){.range = {.base = (uintptr_t)bytes, .n_bytes = n_bytes},
                                     .origin = origin,
                                     .flags = flags,
                                     .context = context};
        emulator_lock();
        r = intervals_insert(&host_ranges, &range->range);
        emulator_unlock();
        if (!r)
                return CUDA_SUCCESS;
        free(range);
        return r == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct host_range *host_find_whole_locked(const void *bytes, enum host_origin origin)
{
        struct host_range *range = host_find_locked((uintptr_t)bytes);

        return range && range->range.base == (uintptr_t)bytes && range->origin == origin ? range
                                                                                         : NULL;
}

/* Takes it out of the table, not before all work of its context is over, whether that uses it or not. */
static CUresult host_take(const char *call, const void *bytes, enum host_origin origin,
                          CUresult unknown, struct host_range **ret_range)
{
        struct context *context = NULL;
        struct host_range *range;
        CUresult r = capture_enter_unsafe(call);

        if (r == CUDA_SUCCESS)
                r = context_check();
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        range = host_find_whole_locked(bytes, origin);
        if (range)
                context = range->context;
        emulator_unlock();
        if (!context)
                return unknown;
        r = stream_wait_all(context);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        range = host_find_whole_locked(bytes, origin);
        if (range)
                intervals_remove(&host_ranges, &range->range);
        emulator_unlock();
        if (!range)
                return unknown;
        *ret_range = range;
        return CUDA_SUCCESS;
}

/* Faults the pages in, as pinning does; this finds addresses with nothing behind them, too. */
static CUresult pages_populate(const void *bytes, size_t n_bytes, int advice)
{
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = (uintptr_t)bytes & ~(page - 1);
        uintptr_t end;

        if (__builtin_add_overflow((uintptr_t)bytes, n_bytes + page - 1, &end))
                return CUDA_ERROR_INVALID_VALUE;
        while (madvise((void *)first, (end & ~(page - 1)) - first, advice) < 0)
                if (errno != EINTR && errno != EAGAIN)
                        return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuMemHostRegister(void *bytes, size_t n_bytes, unsigned int flags)
{
        int advice = flags & CU_MEMHOSTREGISTER_READ_ONLY ? MADV_POPULATE_READ
                                                          : MADV_POPULATE_WRITE;
        struct context *context;
        CUresult r = capture_enter_unsafe(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!bytes || !n_bytes || flags & ~(unsigned)REGISTER_FLAGS)
                return CUDA_ERROR_INVALID_VALUE;
        r = pages_populate(bytes, n_bytes, advice);
        return r == CUDA_SUCCESS ? host_insert(bytes, n_bytes, HOST_REGISTERED, flags, context) : r;
}

EMULATOR_API CUresult CUDAAPI cuMemHostUnregister(void *bytes)
{
        struct host_range *range;
        CUresult r = host_take(
                __func__, bytes, HOST_REGISTERED,
                bytes ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE, &range);

        if (r == CUDA_SUCCESS)
                free(range);
        return r;
}

static CUresult host_alloc(const char *call, void **ret_bytes, size_t n_bytes, unsigned flags)
{
        struct context *context;
        void *bytes;
        CUresult r = capture_enter_unsafe(call);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_bytes || !n_bytes || flags & ~(unsigned)ALLOC_FLAGS)
                return CUDA_ERROR_INVALID_VALUE;
        bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (bytes == MAP_FAILED)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = host_insert(bytes, n_bytes, HOST_ALLOCATED, flags, context);
        if (r == CUDA_SUCCESS)
                *ret_bytes = bytes;
        else
                (void)munmap(bytes, n_bytes);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemHostAlloc(void **ret_bytes, size_t n_bytes, unsigned int flags)
{
        return host_alloc(__func__, ret_bytes, n_bytes, flags);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocHost(void **ret_bytes, size_t n_bytes)
{
        return host_alloc(__func__, ret_bytes, n_bytes, 0);
}

static void host_range_free(struct host_range *range)
{
        if (range->origin == HOST_ALLOCATED)
                (void)munmap((void *)(uintptr_t)range->range.base, range->range.n_bytes);
        free(range);
}

EMULATOR_API CUresult CUDAAPI cuMemFreeHost(void *bytes)
{
        struct host_range *range;
        CUresult r = host_take(__func__, bytes, HOST_ALLOCATED,
                               bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, &range);

        if (r == CUDA_SUCCESS && bytes)
                host_range_free(range);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *ret_address, void *bytes,
                                                        unsigned int flags)
{
        struct context *context;
        bool known;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_address || flags)
                return CUDA_ERROR_INVALID_VALUE;
        known = host_is_pinned((uintptr_t)bytes, 1);
        if (!known)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_address = (uintptr_t)bytes;
        return CUDA_SUCCESS;
}

/* Every device reaches all of it, and the driver tells nothing else of it. */
EMULATOR_API CUresult CUDAAPI cuMemHostGetFlags(unsigned int *ret_flags, void *bytes)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_flags || !host_is_pinned((uintptr_t)bytes, 1))
                return CUDA_ERROR_INVALID_VALUE;
        *ret_flags = CU_MEMHOSTALLOC_DEVICEMAP;
        return CUDA_SUCCESS;
}

static struct host_range *host_take_of_context(const struct context *context)
{
        struct host_range *found = NULL;

        emulator_lock();
        for (size_t i = 0; i < host_ranges.n && !found; i++) {
                struct host_range *range = (struct host_range *)host_ranges.items[i];

                if (range->context == context)
                        found = range;
        }
        if (found)
                intervals_remove(&host_ranges, &found->range);
        emulator_unlock();
        return found;
}

void host_context_ended(const struct context *context)
{
        struct host_range *range;

        while ((range = host_take_of_context(context)))
                host_range_free(range);
}
