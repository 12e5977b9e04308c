/* SPDX-License-Identifier: Apache-2.0 */
/* What handles, reservations and mappings refuse. */
#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define PLACE   (4 * GRANULE)

/* A reservation of PLACE bytes, and memory for it. */
struct place {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;
};

static struct place place_new(size_t n_bytes)
{
        struct place place;

        contract_init();
        place.handle = contract_create(n_bytes, NONE);
        ck_ok(cu.cuMemAddressReserve(&place.address, PLACE, 0, 0, 0));
        return place;
}

static void place_fill(const struct place *place, size_t n_bytes)
{
        ck_ok(cu.cuMemMap(place->address, n_bytes, 0, place->handle, 0));
}

TEST(create_refuses)
{
        CUmemAllocationProp properties = contract_properties(FD);
        CUmemGenericAllocationHandle handle = 77;

        contract_init();
        ck_cuda(INVALID, cu.cuMemCreate(&handle, 0, &properties, 0));
        ck_cuda(INVALID, cu.cuMemCreate(&handle, GRANULE + 4096, &properties, 0));
        ck_cuda(INVALID, cu.cuMemCreate(&handle, GRANULE, &properties, 1));
        ck_cuda(INVALID, cu.cuMemCreate(&handle, GRANULE, NULL, 0));
        ck_cuda(INVALID, cu.cuMemCreate(NULL, GRANULE, &properties, 0));
        properties.location.id = 999;
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        properties = contract_properties(FD);
        properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
        ck_cuda(INVALID, cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        ck_assert_uint_eq(handle, 77);
}

TEST(create_beyond_the_device_is_out_of_memory)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        CUmemGenericAllocationHandle handle;
        size_t n_total;

        contract_init();
        ck_ok(cu.cuDeviceTotalMem(&n_total, 0));
        n_total = (n_total / GRANULE + 1) * GRANULE;
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&handle, n_total, &properties, 0));
        ck_ok(cu.cuMemRelease(contract_create(GRANULE, NONE)));
}

TEST(release_refuses_unknown_handles)
{
        CUmemGenericAllocationHandle handle;

        contract_init();
        handle = contract_create(GRANULE, NONE);
        ck_ok(cu.cuMemRelease(handle));
        ck_cuda(INVALID, cu.cuMemRelease(handle));
        ck_cuda(INVALID, cu.cuMemRelease(0));
}

TEST(reserve_refuses)
{
        CUdeviceptr address = 77;

        contract_init();
        ck_cuda(INVALID, cu.cuMemAddressReserve(&address, 0, 0, 0, 0));
        ck_cuda(INVALID, cu.cuMemAddressReserve(&address, GRANULE + 1, 0, 0, 0));
        ck_cuda(INVALID, cu.cuMemAddressReserve(&address, GRANULE, 3 * GRANULE, 0, 0));
        ck_cuda(INVALID, cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 8));
        ck_assert_uint_eq(address, 77);
}

TEST(an_address_is_freed_whole_and_empty)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;

        contract_init();
        handle = contract_create(GRANULE, NONE);
        ck_ok(cu.cuMemAddressReserve(&address, 2 * GRANULE, 0, 0, 0));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, GRANULE));
        ck_cuda(INVALID, cu.cuMemAddressFree(address + GRANULE, GRANULE));
        ck_ok(cu.cuMemMap(address + GRANULE, GRANULE, 0, handle, 0));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, 2 * GRANULE));
        ck_ok(cu.cuMemUnmap(address + GRANULE, GRANULE));
        ck_ok(cu.cuMemAddressFree(address, 2 * GRANULE));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, 2 * GRANULE));
}

TEST(map_refuses_an_address_between_granules)
{
        struct place place = place_new(GRANULE);

        ck_cuda(INVALID, cu.cuMemMap(place.address + 4096, GRANULE, 0, place.handle, 0));
}

TEST(half_a_handle_is_not_mapped)
{
        struct place place = place_new(GRANULE);

        ck_cuda(CUDA_ERROR_NOT_SUPPORTED,
                cu.cuMemMap(place.address, GRANULE / 2, 0, place.handle, 0));
}

TEST(map_refuses_more_than_the_handle_has)
{
        struct place place = place_new(GRANULE);

        ck_cuda(CUDA_ERROR_NOT_SUPPORTED,
                cu.cuMemMap(place.address, 2 * GRANULE, 0, place.handle, 0));
}

TEST(map_refuses_an_address_that_is_not_reserved)
{
        struct place place = place_new(GRANULE);

        ck_cuda(INVALID, cu.cuMemMap(place.address + PLACE, GRANULE, 0, place.handle, 0));
}

TEST(map_refuses_flags)
{
        struct place place = place_new(GRANULE);

        ck_cuda(INVALID, cu.cuMemMap(place.address, GRANULE, 0, place.handle, 1));
}

TEST(map_refuses_no_handle)
{
        struct place place = place_new(GRANULE);

        ck_cuda(INVALID, cu.cuMemMap(place.address, GRANULE, 0, 0, 0));
}

TEST(map_refuses_where_something_is_mapped)
{
        struct place place = place_new(GRANULE);

        place_fill(&place, GRANULE);
        ck_cuda(INVALID, cu.cuMemMap(place.address, GRANULE, 0, place.handle, 0));
}

TEST(unmap_refuses_the_first_half_of_a_mapping)
{
        struct place place = place_new(2 * GRANULE);

        place_fill(&place, 2 * GRANULE);
        ck_cuda(INVALID, cu.cuMemUnmap(place.address, GRANULE));
}

TEST(unmap_refuses_the_second_half_of_a_mapping)
{
        struct place place = place_new(2 * GRANULE);

        place_fill(&place, 2 * GRANULE);
        ck_cuda(INVALID, cu.cuMemUnmap(place.address + GRANULE, GRANULE));
}

TEST(unmap_of_a_gap_beside_a_mapping_does_nothing)
{
        struct place place = place_new(2 * GRANULE);

        place_fill(&place, 2 * GRANULE);
        ck_ok(cu.cuMemUnmap(place.address + 2 * GRANULE, GRANULE));
}

TEST(unmap_takes_a_mapping_and_the_gap_beside_it)
{
        struct place place = place_new(2 * GRANULE);

        place_fill(&place, 2 * GRANULE);
        ck_ok(cu.cuMemUnmap(place.address, PLACE));
        place_fill(&place, 2 * GRANULE); /* is free again */
}

TEST(what_was_unmapped_is_unmapped_again)
{
        struct place place = place_new(2 * GRANULE);

        place_fill(&place, 2 * GRANULE);
        ck_ok(cu.cuMemUnmap(place.address, 2 * GRANULE));
        ck_ok(cu.cuMemUnmap(place.address, 2 * GRANULE));
}

TEST(access_to_nothing_is_refused)
{
        struct place place = place_new(GRANULE);

        ck_cuda(INVALID,
                contract_set_access(place.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READ));
}

TEST(access_of_an_unknown_device_is_refused)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 999},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        struct place place = place_new(GRANULE);

        place_fill(&place, GRANULE);
        ck_cuda(INVALID, cu.cuMemSetAccess(place.address, GRANULE, &access, 1));
}

TEST(access_of_nobody_is_refused)
{
        struct place place = place_new(GRANULE);

        place_fill(&place, GRANULE);
        ck_cuda(INVALID, cu.cuMemSetAccess(place.address, GRANULE, NULL, 1));
}

CONTRACT_MAIN("vmm_errors")
