/* What may crash the driver, or pass unseen, the emulated one refuses: so a mistake shows. */
#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define INVALID CUDA_ERROR_INVALID_VALUE

START_TEST(host_memory_is_freed_once)
{
        void *bytes;

        (void)contract_context();
        ck_ok(cu.cuMemHostAlloc(&bytes, 4096, CU_MEMHOSTALLOC_PORTABLE));
        ck_ok(cu.cuMemFreeHost(bytes));
        ck_cuda(INVALID, cu.cuMemFreeHost(bytes));
}
END_TEST

START_TEST(a_handle_that_is_none_is_not_exported)
{
        CUmemGenericAllocationHandle handle;
        int fd = -5;

        contract_init();
        handle = contract_create(CONTRACT_GRANULE, FD);
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&fd, handle + 1, FD, 0));
        ck_ok(cu.cuMemRelease(handle));
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&fd, handle, FD, 0));
        ck_assert_int_eq(fd, -5);
}
END_TEST

START_TEST(an_export_needs_an_output)
{
        contract_init();
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(
                                 NULL, contract_create(CONTRACT_GRANULE, FD), FD, 0));
}
END_TEST

START_TEST(unmap_takes_whole_granules_of_one_reservation)
{
        CUdeviceptr address;

        contract_init();
        ck_ok(cu.cuMemAddressReserve(&address, 2 * CONTRACT_GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemUnmap(address, 2 * CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, 0));
        ck_cuda(INVALID, cu.cuMemUnmap(address + 4096, CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, CONTRACT_GRANULE / 2));
        ck_cuda(INVALID, cu.cuMemUnmap(address + CONTRACT_GRANULE, 2 * CONTRACT_GRANULE));
        ck_ok(cu.cuMemAddressFree(address, 2 * CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, CONTRACT_GRANULE));
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("emulator_misuse");
        TCase *tcase = contract_case(suite, "misuse");

        tcase_add_test(tcase, host_memory_is_freed_once);
        tcase_add_test(tcase, a_handle_that_is_none_is_not_exported);
        tcase_add_test(tcase, an_export_needs_an_output);
        tcase_add_test(tcase, unmap_takes_whole_granules_of_one_reservation);
        return contract_main(suite);
}
