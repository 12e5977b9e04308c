/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says about itself and its devices. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/visible.h"

#define DRIVER_VERSION 13000

struct attribute {
        CUdevice_attribute attribute;
        int value;
};

/* An H200, as far as it is emulated; the bus depends on the device. */
static const struct attribute attributes[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
        {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
        {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
};

static CUresult device_check(const char *call, CUdevice device)
{
        CUresult r = emulator_enter(call);

        if (r != CUDA_SUCCESS)
                return r;
        return device < 0 || (unsigned)device >= emulator_get()->n_devices
                       ? CUDA_ERROR_INVALID_DEVICE
                       : CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDriverGetVersion(int *ret_version)
{
        if (!ret_version)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_version = DRIVER_VERSION;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetCount(int *ret_n_devices)
{
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_n_devices)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_n_devices = (int)emulator_get()->n_devices;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGet(CUdevice *ret_device, int ordinal)
{
        CUresult r = device_check(__func__, ordinal);

        if (r == CUDA_SUCCESS && !ret_device)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *ret_device = ordinal;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetName(char *ret_name, int n_bytes, CUdevice device)
{
        CUresult r = device_check(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_name || n_bytes <= 0)
                return CUDA_ERROR_INVALID_VALUE;
        (void)snprintf(ret_name, (size_t)n_bytes, "Emulated GPU %u",
                       emulator_get()->physical[device]);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice device)
{
        uint8_t uuid[VISIBLE_UUID_BYTES];
        CUresult r = device_check(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_uuid)
                return CUDA_ERROR_INVALID_VALUE;
        visible_uuid(emulator_get()->directory.seed, emulator_get()->physical[device], uuid);
        memcpy(ret_uuid->bytes, uuid, sizeof(uuid));
        return CUDA_SUCCESS;
}

/* Of itself no device is a peer. */
EMULATOR_API CUresult CUDAAPI cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
        CUresult r = device_check(__func__, device);

        if (r == CUDA_SUCCESS)
                r = device_check(__func__, peer);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_can)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_can = device != peer && emulator_reaches((unsigned)device, (unsigned)peer);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceTotalMem(size_t *ret_n_bytes, CUdevice device)
{
        CUresult r = device_check(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_n_bytes)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_n_bytes = emulator_get()->config.device_bytes;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetAttribute(int *ret_value, CUdevice_attribute attribute,
                                                   CUdevice device)
{
        CUresult r = device_check(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_value)
                return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
                *ret_value = (int)emulator_get()->physical[device] + 1;
                return CUDA_SUCCESS;
        }
        for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
                if (attributes[i].attribute == attribute) {
                        *ret_value = attributes[i].value;
                        return CUDA_SUCCESS;
                }
        }
        return CUDA_ERROR_INVALID_VALUE;
}
