/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/memory/memory.h"

#include <cuda.h>

#include "base/size.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/stream.h"

/* Memory of cuMemAlloc can be reached from every device. */
static CUresult access_all(enum reservation_kind kind, uint64_t base, uint64_t n_bytes)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned i = 0; r == CUDA_SUCCESS && i < emulator_get()->n_devices; i++) {
                const CUmemAccessDesc access = {
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)i},
                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

                r = mapping_set_access(kind, base, n_bytes, &access, 1);
        }
        return r;
}

CUresult memory_map(const struct reservation *like, struct allocation *allocation,
                    CUdeviceptr *ret_address)
{
        uint64_t base, n_bytes = allocation->hold.n_bytes;
        struct reservation *reservation;
        CUresult r;

        r = reservation_new(like, n_bytes, 0, 0, &reservation);
        if (r != CUDA_SUCCESS)
                return r;
        base = reservation->range.base;
        r = mapping_new(like->kind, base, allocation);
        if (r == CUDA_SUCCESS) {
                r = access_all(like->kind, base, n_bytes);
                if (r != CUDA_SUCCESS)
                        (void)mapping_free(like->kind, base, n_bytes);
        }
        if (r != CUDA_SUCCESS) {
                (void)reservation_free(like->kind, base, n_bytes);
                return r;
        }
        *ret_address = base;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuMemAlloc(CUdeviceptr *ret_address, size_t n_requested)
{
        CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
        struct reservation like = {.kind = RESERVATION_LEGACY, .n_requested = n_requested};
        struct allocation *allocation;
        uint64_t n_bytes;
        CUresult r = capture_enter_unsafe(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&like.context);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_address)
                return CUDA_ERROR_INVALID_VALUE;
        /* The driver leaves no old value where it was asked for an address. */
        *ret_address = 0;
        if (!n_requested)
                return CUDA_ERROR_INVALID_VALUE;
        if (size_round_up(n_requested, EMULATOR_GRANULE, &n_bytes))
                return CUDA_ERROR_OUT_OF_MEMORY;
        properties.location.id = (int)like.context->device;
        r = allocation_new(emulator_store(like.context->device), &properties, n_bytes, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        r = memory_map(&like, allocation, ret_address);
        (void)allocation_unref(allocation);
        return r;
}

static CUresult memory_find(CUdeviceptr address, struct reservation *ret_copy)
{
        const struct reservation *reservation;
        CUresult r = CUDA_ERROR_INVALID_VALUE;

        emulator_lock();
        reservation = reservation_find_locked(address);
        if (reservation && reservation->kind == RESERVATION_LEGACY &&
            reservation->range.base == address) {
                *ret_copy = *reservation;
                r = CUDA_SUCCESS;
        }
        emulator_unlock();
        return r;
}

CUresult memory_free(const struct reservation *memory)
{
        const struct interval *range = &memory->range;
        CUresult r = mapping_free(memory->kind, range->base, range->n_bytes);

        return r == CUDA_SUCCESS ? reservation_free(memory->kind, range->base, range->n_bytes) : r;
}

EMULATOR_API CUresult CUDAAPI cuMemFree(CUdeviceptr address)
{
        struct reservation reservation;
        CUresult r = capture_enter_unsafe(__func__);

        if (r == CUDA_SUCCESS && !address)
                return CUDA_SUCCESS;
        if (r == CUDA_SUCCESS)
                r = context_check();
        if (r == CUDA_SUCCESS)
                r = memory_find(address, &reservation);
        /* Not before all work of its context is over, whether that uses it or not. */
        if (r == CUDA_SUCCESS)
                r = stream_wait_all(reservation.context);
        return r == CUDA_SUCCESS ? memory_free(&reservation) : r;
}

void memory_context_ended(const struct context *context)
{
        const struct reservation *reservation;
        struct reservation copy;

        do {
                emulator_lock();
                reservation = reservation_of_context_locked(context);
                if (reservation)
                        copy = *reservation;
                emulator_unlock();
        } while (reservation && memory_free(&copy) == CUDA_SUCCESS);
}

EMULATOR_API CUresult CUDAAPI cuMemGetInfo(size_t *ret_free, size_t *ret_total)
{
        struct context *context;
        struct store *store;
        uint64_t used;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        store = emulator_store(context->device);
        r = emulator_result(store_used(store, &used));
        if (r != CUDA_SUCCESS)
                return r;
        if (ret_free)
                *ret_free = store->capacity - used;
        if (ret_total)
                *ret_total = store->capacity;
        return CUDA_SUCCESS;
}
