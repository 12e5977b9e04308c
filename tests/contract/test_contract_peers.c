/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices: whose memory each of them reaches. */
#include "tests/contract/devices.h"

#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define READ    CU_MEM_ACCESS_FLAGS_PROT_READ
#define BOTH    DEVICES_BOTH
#define NOTHING CU_MEM_ACCESS_FLAGS_PROT_NONE

static unsigned long long access_of(CUdeviceptr address, int device)
{
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        unsigned long long flags = 99;

        ck_ok(cu.cuMemGetAccess(&flags, &location, address));
        return flags;
}

TEST(who_can_reach_whom_is_told)
{
        int can = 7, n = 0;

        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceCanAccessPeer(&can, 0, 0));
        contract_init();
        ck_ok(cu.cuDeviceGetCount(&n));
        for (int i = 0; i < n; i++) {
                ck_ok(cu.cuDeviceCanAccessPeer(&can, i, i));
                ck_assert_int_eq(can, 0);
        }
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceCanAccessPeer(&can, 0, n));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceCanAccessPeer(&can, n, 0));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceCanAccessPeer(&can, -1, 0));
        ck_cuda(INVALID, cu.cuDeviceCanAccessPeer(NULL, 0, 0));
}

TEST(two_devices_are_peers, NEEDS_TWO_DEVICES)
{
        int can = 0;

        contract_init();
        ck_ok(cu.cuDeviceCanAccessPeer(&can, 0, 1));
        ck_assert_int_eq(can, 1);
        ck_ok(cu.cuDeviceCanAccessPeer(&can, 1, 0));
        ck_assert_int_eq(can, 1);
}

/* The device, or the second one if there is one. */
static int last_device(void)
{
        int count;

        ck_ok(cu.cuDeviceGetCount(&count));
        return count > 1 ? 1 : 0;
}

/* For the devices of a bit mask: one of them, the other one, both. No call needs a context for it, and whose
 * memory it is does not matter. */
TEST(memory_is_accessible_from_the_devices_that_were_named, .from = 1,
     .to = devices_is_one() ? 2 : 4)
{
        unsigned devices = (unsigned)_i;
        int last;
        CUdeviceptr address;

        contract_init();
        last = last_device();
        address = devices_place(contract_import(contract_export(devices_create(last))));
        if (devices == 3)
                devices_allow_both(address);
        else
                devices_allow(address, devices == 2, BOTH);
        for (int i = 0; i <= last; i++)
                ck_assert_uint_eq(access_of(address, i), devices & 1u << i ? BOTH : NOTHING);
        for (int i = 0; i <= last; i++) {
                unsigned char byte = (unsigned char)(0x61 + i);

                if (!(devices & 1u << i))
                        continue;
                devices_use(i);
                ck_ok(devices_fill(address, byte));
                ck_assert_uint_eq(contract_read(address + GRANULE - 1), byte);
        }
}

TEST(a_handle_is_mapped_again_for_the_other_device, NEEDS_TWO_DEVICES)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr own, others;

        devices_open();
        handle = devices_create(1);
        own = devices_place(handle);
        devices_allow(own, 1, BOTH);
        others = devices_place(handle);
        devices_allow(others, 0, BOTH);
        devices_use(1);
        ck_ok(devices_fill(own, 0x6A));
        devices_use(0);
        ck_assert_uint_eq(contract_read(others + GRANULE - 1), 0x6A);
}

TEST(more_access_takes_none_away, NEEDS_TWO_DEVICES)
{
        CUdeviceptr address;

        contract_init();
        address = devices_place(devices_create(0));
        devices_allow(address, 0, BOTH);
        devices_allow(address, 1, BOTH);
        ck_assert_uint_eq(access_of(address, 0), BOTH);
        ck_assert_uint_eq(access_of(address, 1), BOTH);
        devices_allow(address, 1, NOTHING);
        ck_assert_uint_eq(access_of(address, 0), BOTH);
        ck_assert_uint_eq(access_of(address, 1), NOTHING);
}

/* Each writes what the other reads, whosever memory it is. */
TEST(with_access_each_works_on_the_others_memory, NEEDS_TWO_DEVICES)
{
        devices_open();
        for (int owner = 0; owner < 2; owner++) {
                CUdeviceptr address = devices_place(devices_create(owner));

                devices_allow_both(address);
                for (int writer = 0; writer < 2; writer++) {
                        unsigned char byte = (unsigned char)(0x10 * owner + writer + 1);

                        devices_use(writer);
                        ck_ok(devices_fill(address, byte));
                        devices_use(!writer);
                        ck_assert_uint_eq(contract_read(address + GRANULE - 1), byte);
                }
        }
}

TEST(copies_go_from_device_to_device, NEEDS_TWO_DEVICES)
{
        CUdeviceptr from, to;

        devices_open();
        from = devices_place(devices_create(0));
        to = devices_place(devices_create(1));
        devices_allow_both(from);
        devices_allow_both(to);
        devices_use(0);
        ck_ok(devices_fill(from, 0x5A));
        for (int device = 0; device < 2; device++) {
                devices_use(device);
                ck_ok(cu.cuMemcpyDtoD(to, from, GRANULE));
                ck_ok(cu.cuCtxSynchronize());
                ck_assert_uint_eq(contract_read(to + GRANULE / 2), 0x5A);
                ck_ok(devices_fill(to, 0));
        }
}

/* Nothing is enqueued, and the context is as good as before. */
static void check_none(CUdeviceptr address, CUdeviceptr own)
{
        unsigned char byte = 0;

        ck_cuda(INVALID, cu.cuMemsetD8(address, 1, GRANULE));
        ck_cuda(INVALID, cu.cuMemsetD32Async(address, 1, GRANULE / 4, NULL));
        ck_cuda(INVALID, cu.cuMemcpyHtoD(address, &byte, 1));
        ck_cuda(INVALID, cu.cuMemcpyDtoH(&byte, address, 1));
        ck_cuda(INVALID, cu.cuMemcpyDtoHAsync(&byte, address, 1, NULL));
        ck_cuda(INVALID, cu.cuMemcpyDtoD(own, address, GRANULE));
        ck_cuda(INVALID, cu.cuMemcpyDtoDAsync(address, own, GRANULE, NULL));
        ck_ok(cu.cuCtxSynchronize());
}

TEST(calls_without_access_are_refused, NEEDS_TWO_DEVICES)
{
        CUdeviceptr address, own;

        devices_open();
        address = devices_place(devices_create(0));
        devices_allow(address, 0, BOTH);
        own = devices_place(devices_create(1));
        devices_allow(own, 1, BOTH);
        devices_use(1);
        check_none(address, own);
        devices_use(0);
        ck_ok(devices_fill(address, 2));
        ck_assert_uint_eq(contract_read(address), 2);
}

TEST(access_that_was_taken_away_is_gone, NEEDS_TWO_DEVICES)
{
        CUdeviceptr address, own;

        devices_open();
        address = devices_place(devices_create(0));
        devices_allow_both(address);
        own = devices_place(devices_create(1));
        devices_allow(own, 1, BOTH);
        devices_use(1);
        ck_ok(devices_fill(address, 1));
        devices_allow(address, 1, NOTHING);
        check_none(address, own);
        devices_use(0);
        ck_assert_uint_eq(contract_read(address), 1);
}

/* What it is does not depend on who reaches it. */
TEST(memory_is_its_own_devices, NEEDS_TWO_DEVICES)
{
        CUdeviceptr address;
        int device = -1;

        devices_open();
        devices_use(0);
        address = devices_place(devices_create(1));
        devices_allow(address, 0, BOTH);
        ck_ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
        ck_assert_int_eq(device, 1);
}

TEST(reading_is_not_writing, NEEDS_TWO_DEVICES)
{
        CUdeviceptr address;

        devices_open();
        address = devices_place(devices_create(0));
        devices_allow(address, 0, BOTH);
        devices_allow(address, 1, READ);
        devices_use(1);
        ck_assert_uint_eq(contract_read(address), 0);
        ck_cuda(INVALID, devices_fill(address, 1));
        ck_ok(cu.cuCtxSynchronize());
}

/* A fd that one process made on a device, mapped by another for both. */
static void write_for_other(int socket)
{
        CUdeviceptr address;
        int fd = contract_receive(socket, 'h');

        devices_open();
        address = devices_place(contract_import(fd));
        devices_allow_both(address);
        devices_use(0);
        ck_ok(devices_fill(address, 0x66));
        contract_send(socket, 'w', -1);
}

TEST(what_is_imported_is_reached_alike, NEEDS_TWO_DEVICES)
{
        struct contract_peer peer = contract_start(write_for_other);
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;

        devices_open();
        handle = devices_create(1);
        address = devices_place(handle);
        devices_allow(address, 1, BOTH);
        contract_send(peer.socket, 'h', contract_export(handle));
        (void)contract_receive(peer.socket, 'w');
        devices_use(1);
        ck_assert_uint_eq(contract_read(address + GRANULE - 1), 0x66);
        contract_finish(&peer);
}

CONTRACT_MAIN("peers")
