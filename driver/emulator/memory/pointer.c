/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows about an address. */
#include <cuda.h>
#include <string.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"
#include "driver/emulator/memory/host.h"

/* Describes an address. Filled with the emulator's lock held, read afterwards. */
struct pointer {
        enum { POINTER_DEVICE, POINTER_VIRTUAL, POINTER_HOST } kind;
        uint64_t address;
        struct interval range; /* reservation, cuMemAlloc, opened memory, or registration */
        struct interval mapping;
        struct context *context;
        int device;
        CUmemAllocationProp properties;
        uint64_t block_id;
        uint8_t access;
        bool is_accessible; /* from some device, or it is no device's */
        bool is_opened;     /* another process's */
};

static bool host_describe(const struct host_range *host, struct pointer *ret)
{
        if (!host)
                return false;
        ret->kind = POINTER_HOST;
        ret->range = host->range;
        ret->mapping = host->range;
        ret->context = host->context;
        ret->device = (int)host->context->device;
        ret->access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        ret->is_accessible = true;
        return true;
}

static bool is_accessible(const struct mapping *mapping)
{
        for (size_t i = 0; i < ARRAY_SIZE(mapping->access); i++)
                if (mapping->access[i])
                        return true;
        return false;
}

/* The driver does not know addresses that are reserved and not mapped, nor those behind the bytes that cuMemAlloc was
 * asked for. */
static bool describe_locked(uint64_t address, struct pointer *ret)
{
        const struct reservation *reservation = reservation_find_locked(address);
        const struct mapping *mapping = mapping_find_locked(address);

        if (!reservation)
                return host_describe(host_find_locked(address), ret);
        if (!mapping)
                return false;
        ret->kind = reservation->kind == RESERVATION_VIRTUAL ? POINTER_VIRTUAL : POINTER_DEVICE;
        ret->is_opened = reservation->kind == RESERVATION_OPENED;
        ret->range = reservation->range;
        ret->context = reservation->context;
        if (reservation->kind != RESERVATION_VIRTUAL)
                ret->range.n_bytes = reservation->n_requested;
        if (address - ret->range.base >= ret->range.n_bytes)
                return false;
        ret->mapping = mapping->range;
        ret->properties = mapping->allocation->properties;
        ret->device = ret->properties.location.id;
        ret->block_id = mapping->allocation->hold.serial;
        ret->access = mapping->access[ret->device];
        ret->is_accessible = is_accessible(mapping);
        return true;
}

static bool pointer_describe(uint64_t address, struct pointer *ret)
{
        bool known;

        memset(ret, 0, sizeof(*ret));
        ret->address = address;
        emulator_lock();
        known = describe_locked(address, ret);
        emulator_unlock();
        return known;
}

static bool is_host(const struct pointer *pointer)
{
        return pointer->kind == POINTER_HOST ||
               pointer->properties.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* The answers are of five types, as <cuda.h> says; each attribute knows its own. */
static CUresult answer_address(void *data, uint64_t address)
{
        memcpy(data, &address, sizeof(address));
        return CUDA_SUCCESS;
}

static CUresult answer_int(void *data, int value)
{
        memcpy(data, &value, sizeof(value));
        return CUDA_SUCCESS;
}

static CUresult answer_bool(void *data, bool value)
{
        memcpy(data, &value, 1);
        return CUDA_SUCCESS;
}

static CUresult answer_host_pointer(const struct pointer *pointer, void *data)
{
        return is_host(pointer) ? answer_address(data, pointer->address) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult answer_memory(const struct pointer *pointer, CUpointer_attribute attribute,
                              void *data)
{
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
                return answer_address(data, (uintptr_t)context_handle(pointer->context));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
                return answer_int(data,
                                  is_host(pointer) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
                return answer_address(data, pointer->address);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
                return answer_host_pointer(pointer, data);
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
                return answer_int(data, pointer->device);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
                return answer_bool(data, false);
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
                return answer_bool(data,
                                   pointer->kind == POINTER_DEVICE ||
                                           pointer->properties.allocFlags.gpuDirectRDMACapable);
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
                return answer_address(data, pointer->properties.requestedHandleTypes);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
                return answer_int(data, pointer->access);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
                return answer_address(data, 0);
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
                return answer_address(data, pointer->block_id);
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
                return answer_bool(data, pointer->kind == POINTER_DEVICE && !pointer->is_opened);
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult answer(const struct pointer *pointer, CUpointer_attribute attribute, void *data)
{
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
                return answer_address(data, pointer->range.base);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
                return answer_address(data, pointer->range.n_bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED:
                return answer_bool(data, true);
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
                return answer_address(data, pointer->mapping.base);
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
                return answer_address(data, pointer->mapping.n_bytes);
        default:
                return answer_memory(pointer, attribute, data);
        }
}

EMULATOR_API CUresult CUDAAPI cuPointerGetAttribute(void *ret_data, CUpointer_attribute attribute,
                                                    CUdeviceptr address)
{
        struct pointer pointer;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_data || !pointer_describe(address, &pointer))
                return CUDA_ERROR_INVALID_VALUE;
        return answer(&pointer, attribute, ret_data);
}

/* An answer's size, for the zeros that stand for "unknown"; 0: no such attribute. */
static size_t answer_size(CUpointer_attribute attribute)
{
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
                return sizeof(int);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
                return 1;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
                return sizeof(uint64_t);
        default:
                return 0;
        }
}

/* For an unknown address: zero, -2 as the device, and no size at all. */
static void answer_unknown(CUpointer_attribute attribute, void *data)
{
        if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
                return;
        memset(data, 0, answer_size(attribute));
        if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                (void)answer_int(data, -2);
}

/* Unlike the call for one attribute, this one succeeds for addresses that the driver does not know.
 */
EMULATOR_API CUresult CUDAAPI cuPointerGetAttributes(unsigned int n_attributes,
                                                     CUpointer_attribute *attributes, void **data,
                                                     CUdeviceptr address)
{
        struct pointer pointer;
        CUresult r = emulator_enter_hot(__func__);
        bool known;

        if (r != CUDA_SUCCESS)
                return r;
        if (!attributes || !data)
                return CUDA_ERROR_INVALID_VALUE;
        for (unsigned i = 0; i < n_attributes; i++)
                if (!answer_size(attributes[i]) || !data[i])
                        return CUDA_ERROR_INVALID_VALUE;
        known = pointer_describe(address, &pointer);
        for (unsigned i = 0; i < n_attributes; i++) {
                if (!known || answer(&pointer, attributes[i], data[i]) != CUDA_SUCCESS)
                        answer_unknown(attributes[i], data[i]);
        }
        return CUDA_SUCCESS;
}

/* For a reservation: the mapping at the address, if that can be used; the pointer's attributes give the whole
 * reservation. */
EMULATOR_API CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *ret_base, size_t *ret_n_bytes,
                                                   CUdeviceptr address)
{
        const struct interval nothing = {0}, *range = &nothing;
        struct context *context;
        struct pointer pointer;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (pointer_describe(address, &pointer) && pointer.is_accessible)
                range = pointer.kind == POINTER_VIRTUAL ? &pointer.mapping : &pointer.range;
        if (ret_base)
                *ret_base = range->base;
        if (ret_n_bytes)
                *ret_n_bytes = range->n_bytes;
        return range == &nothing ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuMemGetAccess(unsigned long long *ret_flags,
                                             const CUmemLocation *location, CUdeviceptr address)
{
        const struct mapping *mapping;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_INVALID_VALUE;
        if (location->id < 0 || (unsigned)location->id >= emulator_get()->n_devices)
                return CUDA_ERROR_INVALID_DEVICE;
        emulator_lock();
        mapping = mapping_find_locked(address);
        if (mapping)
                *ret_flags = mapping->access[location->id];
        emulator_unlock();
        return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
