/* SPDX-License-Identifier: Apache-2.0 */
/* cuIpc...: memory of cuMemAlloc as 64 bytes: a process that knows them may open it. Opening the same
 * memory again in a context is counted, and closing it waits for all work of the context. */
#include <assert.h>
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"
#include "driver/emulator/memory/memory.h"
#include "driver/emulator/stream/stream.h"

#define MAGIC UINT64_C(0x3263706975656d67)

/* The contents of the 64 bytes. */
struct ipc_handle {
        uint64_t magic;
        uint32_t physical; /* number of the device */
        int32_t owner;     /* its pid */
        uint64_t base;
        uint64_t serial;
        uint64_t unused[4];
};
static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "it must fit");

/* Opening and closing, one at a time; taken before the emulator's lock. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Some address inside will do. */
static struct allocation *allocation_at(CUdeviceptr address)
{
        struct allocation *allocation = NULL;
        const struct mapping *mapping;

        emulator_lock();
        mapping = mapping_find_locked(address);
        if (mapping && mapping->reservation->kind == RESERVATION_LEGACY)
                allocation = allocation_ref(mapping->allocation);
        emulator_unlock();
        return allocation;
}

EMULATOR_API CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr address)
{
        struct ipc_handle handle = {.magic = MAGIC, .owner = (int32_t)getpid()};
        struct allocation *allocation;
        struct context *context;
        CUresult r = emulator_enter_delayed(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        allocation = ret_handle ? allocation_at(address) : NULL;
        if (!allocation)
                return CUDA_ERROR_INVALID_VALUE;
        r = emulator_result(store_offer(allocation->store, &allocation->hold));
        handle.physical = emulator_get()->physical[allocation->properties.location.id];
        handle.base = allocation->hold.base;
        handle.serial = allocation->hold.serial;
        (void)allocation_unref(allocation);
        if (r == CUDA_SUCCESS)
                memcpy(ret_handle, &handle, sizeof(handle));
        return r;
}

static CUresult handle_check(const struct ipc_handle *handle, unsigned *ret_device)
{
        const struct emulator *emulator = emulator_get();

        if (handle->magic != MAGIC)
                return CUDA_ERROR_INVALID_VALUE;
        if (handle->owner == (int32_t)getpid())
                return CUDA_ERROR_INVALID_CONTEXT;
        for (unsigned device = 0; device < emulator->n_devices; device++) {
                if (emulator->physical[device] == handle->physical) {
                        *ret_device = device;
                        return CUDA_SUCCESS;
                }
        }
        return CUDA_ERROR_INVALID_DEVICE;
}

/* Memory that is open already does not need its owner any more. */
static CUresult open_again(const struct context *context, const struct store *store,
                           uint64_t serial, CUdeviceptr *ret_address)
{
        const struct mapping *mapping;

        emulator_lock();
        mapping = mapping_of_opened_locked(context, store, serial);
        if (mapping) {
                mapping->reservation->n_opens++;
                *ret_address = mapping->reservation->range.base;
        }
        emulator_unlock();
        return mapping ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult open_anew(struct context *context, unsigned device, const struct ipc_handle *handle,
                          CUdeviceptr *ret_address)
{
        struct reservation like = {.kind = RESERVATION_OPENED, .context = context, .n_opens = 1};
        struct allocation *allocation;
        CUresult r;

        r = allocation_open_offered(device, handle->base, handle->serial, &allocation);
        /* Freed by its owner, or gone with it. */
        if (r == CUDA_ERROR_INVALID_VALUE && kill(handle->owner, 0) < 0 && errno == ESRCH)
                return CUDA_ERROR_INVALID_HANDLE;
        if (r != CUDA_SUCCESS)
                return r;
        like.n_requested = allocation->hold.n_bytes;
        r = memory_map(&like, allocation, ret_address);
        (void)allocation_unref(allocation);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *ret_address, CUipcMemHandle bytes,
                                                 unsigned int flags)
{
        struct ipc_handle handle;
        struct context *context;
        unsigned device;
        CUresult r = emulator_enter_delayed(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r == CUDA_SUCCESS && (!ret_address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
                r = CUDA_ERROR_INVALID_VALUE;
        memcpy(&handle, &bytes, sizeof(handle));
        if (r == CUDA_SUCCESS)
                r = handle_check(&handle, &device);
        if (r != CUDA_SUCCESS)
                return r;
        (void)pthread_mutex_lock(&opening);
        r = open_again(context, emulator_store(device), handle.serial, ret_address);
        if (r == CUDA_ERROR_NOT_FOUND)
                r = open_anew(context, device, &handle, ret_address);
        (void)pthread_mutex_unlock(&opening);
        return r;
}

static CUresult find_opened(CUdeviceptr address, struct context **ret_context)
{
        const struct reservation *reservation;
        CUresult r = CUDA_ERROR_INVALID_VALUE;

        emulator_lock();
        reservation = reservation_find_locked(address);
        if (reservation && reservation->kind == RESERVATION_OPENED &&
            reservation->range.base == address) {
                *ret_context = reservation->context;
                r = CUDA_SUCCESS;
        }
        emulator_unlock();
        return r;
}

static CUresult close_one(CUdeviceptr address)
{
        struct reservation *reservation, copy;

        emulator_lock();
        reservation = reservation_find_locked(address);
        if (reservation && reservation->kind == RESERVATION_OPENED) {
                reservation->n_opens--;
                copy = *reservation;
        } else {
                reservation = NULL;
        }
        emulator_unlock();
        if (!reservation)
                return CUDA_ERROR_INVALID_VALUE;
        return copy.n_opens ? CUDA_SUCCESS : memory_free(&copy);
}

EMULATOR_API CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr address)
{
        struct context *context;
        CUresult r = emulator_enter_delayed(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r == CUDA_SUCCESS)
                r = find_opened(address, &context);
        if (r == CUDA_SUCCESS)
                r = stream_wait_all(context);
        if (r != CUDA_SUCCESS)
                return r;
        (void)pthread_mutex_lock(&opening);
        r = close_one(address);
        (void)pthread_mutex_unlock(&opening);
        return r;
}
