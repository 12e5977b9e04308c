/* One device's memory in the hands of another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE

static CUmemGenericAllocationHandle create_on(int device)
{
        CUmemAllocationProp properties = contract_properties(
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        CUmemGenericAllocationHandle handle;

        properties.location.id = device;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        return handle;
}

/* For the devices of a bit mask. */
static CUdeviceptr map_for(CUmemGenericAllocationHandle handle, unsigned devices)
{
        CUmemAccessDesc access[2];
        CUdeviceptr address;
        size_t n = 0;

        for (int i = 0; i < 2; i++) {
                if (devices & 1u << i)
                        access[n++] = (CUmemAccessDesc){
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        }
        ck_ok(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(address, GRANULE, 0, handle, 0));
        ck_ok(cu.cuMemSetAccess(address, GRANULE, access, n));
        return address;
}

static void use(int device)
{
        CUcontext context;

        ck_ok(cu.cuDevicePrimaryCtxRetain(&context, device));
        ck_ok(cu.cuCtxSetCurrent(context));
}

static int owner(void)
{
        int count;

        ck_ok(cu.cuDeviceGetCount(&count));
        return count > 1 ? 1 : 0;
}

/* For one of them alone, the other one alone, and both; mapped without a context. */
START_TEST(memory_is_accessible_from_the_devices_that_were_named)
{
        unsigned devices = (unsigned)_i;
        CUdeviceptr address;

        contract_init();
        address = map_for(contract_import(contract_export(create_on(owner()))), devices);
        for (int i = 0; i < 2; i++) {
                if (!(devices & 1u << i))
                        continue;
                use(i);
                ck_ok(cu.cuMemsetD8(address, (unsigned char)(0x61 + i), GRANULE));
                ck_assert_uint_eq(contract_read(address + GRANULE - 1), (unsigned char)(0x61 + i));
        }
}
END_TEST

START_TEST(a_handle_is_mapped_again_for_the_other_device)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr own, others;

        contract_init();
        handle = create_on(1);
        own = map_for(handle, 1u << 1);
        others = map_for(handle, 1u << 0);
        use(1);
        ck_ok(cu.cuMemsetD8(own, 0x6A, GRANULE));
        ck_ok(cu.cuCtxSynchronize());
        use(0);
        ck_assert_uint_eq(contract_read(others + GRANULE - 1), 0x6A);
}
END_TEST

/* What this machine cannot try is left out, and said so. */
int main(void)
{
        const char *text = getenv("GPUMEM_TEST_DEVICES");
        int n_devices = text && strcmp(text, "1") == 0 ? 1 : 2;
        Suite *suite = suite_create("peer");
        TCase *tcase = contract_case(suite, "peer");

        tcase_add_loop_test(tcase, memory_is_accessible_from_the_devices_that_were_named, 1,
                            1 << n_devices);
        if (n_devices > 1)
                tcase_add_test(tcase, a_handle_is_mapped_again_for_the_other_device);
        else
                (void)puts("# left out: memory of one device for another: one device only");
        (void)fflush(stdout);
        return contract_main(suite);
}
