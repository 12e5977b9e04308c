/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says about itself and its devices. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/visible.h"

/* By their numbers, without gaps. */
static const int attributes[] = {
#define ATTRIBUTE(name, value) [CU_DEVICE_ATTRIBUTE_##name] = (value),
#include "driver/emulator/machine/attributes.def"
#undef ATTRIBUTE
};

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
        CUresult r = emulator_enter_for(__func__, ordinal);

        if (r == CUDA_SUCCESS && !ret_device)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *ret_device = ordinal;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetName(char *ret_name, int n_bytes, CUdevice device)
{
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_name || n_bytes <= 0)
                return CUDA_ERROR_INVALID_VALUE;
        (void)snprintf(ret_name, (size_t)n_bytes, "Emulated GPU %u%s",
                       emulator_get()->physical[device],
                       emulator_get()->config.is_mig ? " MIG 1g" : "");
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice device)
{
        uint8_t uuid[UUID_BYTES];
        CUresult r = emulator_enter_for(__func__, device);

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
        CUresult r = emulator_enter_for(__func__, device);

        if (r == CUDA_SUCCESS)
                r = emulator_enter_for(__func__, peer);
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_can)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_can = device != peer && emulator_reaches((unsigned)device, (unsigned)peer);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuDeviceTotalMem(size_t *ret_n_bytes, CUdevice device)
{
        CUresult r = emulator_enter_for(__func__, device);

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
        CUresult r = emulator_enter_for(__func__, device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_value)
                return CUDA_ERROR_INVALID_VALUE;
        if ((int)attribute < 1 || (size_t)attribute >= ARRAY_SIZE(attributes))
                return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
                *ret_value = (int)emulator_get()->physical[device] + 1;
        else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
                *ret_value = (int)emulator_get()->config.has_rdma;
        else
                *ret_value = attributes[attribute];
        return CUDA_SUCCESS;
}
