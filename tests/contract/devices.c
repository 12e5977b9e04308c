/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/devices.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE CONTRACT_GRANULE

static CUcontext contexts[2];

void devices_open(void)
{
        contract_init();
        for (int i = 0; i < 2; i++)
                ck_ok(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
}

void devices_use(int device)
{
        if (!contexts[device])
                ck_ok(cu.cuDevicePrimaryCtxRetain(&contexts[device], device));
        ck_ok(cu.cuCtxSetCurrent(contexts[device]));
}

CUmemGenericAllocationHandle devices_create(int device)
{
        CUmemAllocationProp properties = contract_properties(
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        CUmemGenericAllocationHandle handle;

        properties.location.id = device;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        return handle;
}

CUdeviceptr devices_place(CUmemGenericAllocationHandle handle)
{
        CUdeviceptr address;

        ck_ok(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(address, GRANULE, 0, handle, 0));
        return address;
}

void devices_allow(CUdeviceptr address, int device, CUmemAccess_flags flags)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                  .flags = flags};

        ck_ok(cu.cuMemSetAccess(address, GRANULE, &access, 1));
}

void devices_allow_both(CUdeviceptr address)
{
        CUmemAccessDesc access[2];

        for (int i = 0; i < 2; i++)
                access[i] = (CUmemAccessDesc){
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
                        .flags = DEVICES_BOTH};
        ck_ok(cu.cuMemSetAccess(address, GRANULE, access, 2));
}

CUresult devices_fill(CUdeviceptr address, unsigned char byte)
{
        CUresult r = cu.cuMemsetD8(address, byte, GRANULE);

        return r == CUDA_SUCCESS ? cu.cuCtxSynchronize() : r;
}

bool devices_is_one(void)
{
        const char *devices = getenv("GPUMEM_TEST_DEVICES");

        return devices && strcmp(devices, "1") == 0;
}

bool devices_are_two(void)
{
        return !devices_is_one();
}
