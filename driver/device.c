/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/device.h"

#include <string.h>

#include "driver/vmm.h"
#include "gpumem.h"

int device_count(const struct cuda *cuda, int *ret_count)
{
        return CUDA_CALL(cuda, cuDeviceGetCount, ret_count);
}

/* A driver that does not know the attribute has not what it tells of. */
static bool has(const struct cuda *cuda, CUdevice handle, CUdevice_attribute attribute)
{
        int value;

        return !CUDA_CALL(cuda, cuDeviceGetAttribute, &value, attribute, handle) && value;
}

static int describe_handle(const struct cuda *cuda, CUdevice handle, struct device *device)
{
        CUuuid uuid;
        size_t n_bytes;
        int r;

        r = CUDA_CALL(cuda, cuDeviceGetUuid, &uuid, handle);
        if (r)
                return r;
        memcpy(device->uuid, uuid.bytes, sizeof(device->uuid));
        r = CUDA_CALL(cuda, cuDeviceGetName, device->name, sizeof(device->name), handle);
        if (r)
                return r;
        r = CUDA_CALL(cuda, cuDeviceTotalMem, &n_bytes, handle);
        if (r)
                return r;
        device->n_bytes = n_bytes;
        if (CUDA_CALL(cuda, cuDeviceGetAttribute, &device->numa_node,
                      CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, handle))
                device->numa_node = -1;
        device->has_rdma = has(cuda, handle,
                               CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
        return vmm_granularity(cuda, device->ordinal, &device->n_granularity_bytes);
}

int device_describe(const struct cuda *cuda, int ordinal, struct device *ret_device)
{
        struct device device = {.ordinal = ordinal};
        CUdevice handle;
        int r;

        r = CUDA_CALL(cuda, cuDeviceGet, &handle, ordinal);
        if (!r)
                r = describe_handle(cuda, handle, &device);
        if (r)
                return r;
        *ret_device = device;
        return 0;
}

int device_reaches(const struct cuda *cuda, int ordinal, int other, bool *ret_reaches)
{
        CUdevice device, peer;
        int can, r;

        r = CUDA_CALL(cuda, cuDeviceGet, &device, ordinal);
        if (!r)
                r = CUDA_CALL(cuda, cuDeviceGet, &peer, other);
        if (!r)
                r = CUDA_CALL(cuda, cuDeviceCanAccessPeer, &can, device, peer);
        if (!r)
                *ret_reaches = can;
        return r;
}

int device_find(const struct cuda *cuda, const uint8_t uuid[static DEVICE_UUID_BYTES],
                struct device *ret_device)
{
        struct device device;
        int count, r;

        r = device_count(cuda, &count);
        if (r)
                return r;
        for (int ordinal = 0; ordinal < count; ordinal++) {
                r = device_describe(cuda, ordinal, &device);
                if (r)
                        return r;
                if (memcmp(device.uuid, uuid, DEVICE_UUID_BYTES) == 0) {
                        *ret_device = device;
                        return 0;
                }
        }
        return GPUMEM_E_NO_POOL;
}
