/* Two devices: whose memory each of them reaches, and how work of the one waits for the other's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define READ    CU_MEM_ACCESS_FLAGS_PROT_READ
#define BOTH    CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define NOTHING CU_MEM_ACCESS_FLAGS_PROT_NONE

static CUcontext contexts[2];

static void contexts_make(void)
{
        contract_init();
        for (int i = 0; i < 2; i++)
                ck_ok(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
}

static void use(int device)
{
        ck_ok(cu.cuCtxSetCurrent(contexts[device]));
}

static CUmemGenericAllocationHandle create_on(int device)
{
        CUmemAllocationProp properties = contract_properties(FD);
        CUmemGenericAllocationHandle handle;

        properties.location.id = device;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        return handle;
}

static CUdeviceptr place(CUmemGenericAllocationHandle handle)
{
        CUdeviceptr address;

        ck_ok(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(address, GRANULE, 0, handle, 0));
        return address;
}

static void allow(CUdeviceptr address, int device, CUmemAccess_flags flags)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                  .flags = flags};

        ck_ok(cu.cuMemSetAccess(address, GRANULE, &access, 1));
}

static void allow_both(CUdeviceptr address)
{
        CUmemAccessDesc access[2];

        for (int i = 0; i < 2; i++)
                access[i] = (CUmemAccessDesc){
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}, .flags = BOTH};
        ck_ok(cu.cuMemSetAccess(address, GRANULE, access, 2));
}

static unsigned long long access_of(CUdeviceptr address, int device)
{
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        unsigned long long flags = 99;

        ck_ok(cu.cuMemGetAccess(&flags, &location, address));
        return flags;
}

/* Filled by the device whose context is current, and waited for. */
static CUresult fill(CUdeviceptr address, unsigned char byte)
{
        CUresult r = cu.cuMemsetD8(address, byte, GRANULE);

        return r == CUDA_SUCCESS ? cu.cuCtxSynchronize() : r;
}

START_TEST(who_can_reach_whom_is_told)
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
END_TEST

START_TEST(two_devices_are_peers)
{
        int can = 0;

        contract_init();
        ck_ok(cu.cuDeviceCanAccessPeer(&can, 0, 1));
        ck_assert_int_eq(can, 1);
        ck_ok(cu.cuDeviceCanAccessPeer(&can, 1, 0));
        ck_assert_int_eq(can, 1);
}
END_TEST

/* The device, or the second one if there is one. */
static int last_device(void)
{
        int count;

        ck_ok(cu.cuDeviceGetCount(&count));
        return count > 1 ? 1 : 0;
}

/* For the devices of a bit mask: one of them, the other one, both. Nobody needs a context for it, and whose
 * memory it is does not matter. */
START_TEST(memory_is_accessible_from_the_devices_that_were_named)
{
        unsigned devices = (unsigned)_i;
        int last;
        CUdeviceptr address;

        contract_init();
        last = last_device();
        address = place(contract_import(contract_export(create_on(last))));
        if (devices == 3)
                allow_both(address);
        else
                allow(address, devices == 2, BOTH);
        for (int i = 0; i <= last; i++)
                ck_assert_uint_eq(access_of(address, i), devices & 1u << i ? BOTH : NOTHING);
        for (int i = 0; i <= last; i++) {
                unsigned char byte = (unsigned char)(0x61 + i);

                if (!(devices & 1u << i))
                        continue;
                ck_ok(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
                use(i);
                ck_ok(fill(address, byte));
                ck_assert_uint_eq(contract_read(address + GRANULE - 1), byte);
        }
}
END_TEST

START_TEST(a_handle_is_mapped_again_for_the_other_device)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr own, others;

        contexts_make();
        handle = create_on(1);
        own = place(handle);
        allow(own, 1, BOTH);
        others = place(handle);
        allow(others, 0, BOTH);
        use(1);
        ck_ok(fill(own, 0x6A));
        use(0);
        ck_assert_uint_eq(contract_read(others + GRANULE - 1), 0x6A);
}
END_TEST

START_TEST(more_access_takes_none_away)
{
        CUdeviceptr address;

        contract_init();
        address = place(create_on(0));
        allow(address, 0, BOTH);
        allow(address, 1, BOTH);
        ck_assert_uint_eq(access_of(address, 0), BOTH);
        ck_assert_uint_eq(access_of(address, 1), BOTH);
        allow(address, 1, NOTHING);
        ck_assert_uint_eq(access_of(address, 0), BOTH);
        ck_assert_uint_eq(access_of(address, 1), NOTHING);
}
END_TEST

/* Each writes what the other reads, whosever memory it is. */
START_TEST(with_access_each_works_on_the_others_memory)
{
        contexts_make();
        for (int owner = 0; owner < 2; owner++) {
                CUdeviceptr address = place(create_on(owner));

                allow_both(address);
                for (int writer = 0; writer < 2; writer++) {
                        unsigned char byte = (unsigned char)(0x10 * owner + writer + 1);

                        use(writer);
                        ck_ok(fill(address, byte));
                        use(!writer);
                        ck_assert_uint_eq(contract_read(address + GRANULE - 1), byte);
                }
        }
}
END_TEST

START_TEST(copies_go_from_device_to_device)
{
        CUdeviceptr from, to;

        contexts_make();
        from = place(create_on(0));
        to = place(create_on(1));
        allow_both(from);
        allow_both(to);
        use(0);
        ck_ok(fill(from, 0x5A));
        for (int device = 0; device < 2; device++) {
                use(device);
                ck_ok(cu.cuMemcpyDtoD(to, from, GRANULE));
                ck_ok(cu.cuCtxSynchronize());
                ck_assert_uint_eq(contract_read(to + GRANULE / 2), 0x5A);
                ck_ok(fill(to, 0));
        }
}
END_TEST

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

START_TEST(calls_without_access_are_refused)
{
        CUdeviceptr address, own;

        contexts_make();
        address = place(create_on(0));
        allow(address, 0, BOTH);
        own = place(create_on(1));
        allow(own, 1, BOTH);
        use(1);
        check_none(address, own);
        use(0);
        ck_ok(fill(address, 2));
        ck_assert_uint_eq(contract_read(address), 2);
}
END_TEST

START_TEST(access_that_was_taken_away_is_gone)
{
        CUdeviceptr address, own;

        contexts_make();
        address = place(create_on(0));
        allow_both(address);
        own = place(create_on(1));
        allow(own, 1, BOTH);
        use(1);
        ck_ok(fill(address, 1));
        allow(address, 1, NOTHING);
        check_none(address, own);
        use(0);
        ck_assert_uint_eq(contract_read(address), 1);
}
END_TEST

/* Device 0's stream is held up before it writes. */
START_TEST(access_is_given_while_work_goes_on)
{
        struct contract_gate gate;
        CUdeviceptr address;
        CUstream stream;

        contexts_make();
        use(0);
        address = place(create_on(0));
        allow(address, 0, BOTH);
        ck_ok(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x33, GRANULE / 2, stream));
        contract_await(&gate);
        allow(address, 1, BOTH);
        use(1);
        ck_ok(cu.cuMemsetD8(address + GRANULE / 2, 0x44, GRANULE / 2));
        ck_assert_uint_eq(contract_read(address + GRANULE - 1), 0x44);
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(address), 0x33);
}
END_TEST

/* An event of the one device is asked for, and waited for, in whichever context is current. */
START_TEST(events_are_for_all_devices)
{
        struct contract_gate gate;
        CUstream streams[2];
        CUdeviceptr address;
        CUevent event;

        contexts_make();
        address = place(create_on(0));
        allow_both(address);
        for (int i = 0; i < 2; i++) {
                use(i);
                ck_ok(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        }
        ck_ok(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        contract_hold(streams[1], &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x77, GRANULE, streams[1]));
        ck_ok(cu.cuEventRecord(event, streams[1]));
        use(0);
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(event, streams[0]));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(streams[1]));
        ck_ok(cu.cuStreamWaitEvent(streams[0], event, 0));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(streams[0]));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(streams[0]));
        ck_ok(cu.cuEventQuery(event));
        ck_assert_uint_eq(contract_read(address), 0x77);
        ck_ok(cu.cuStreamSynchronize(streams[1]));
}
END_TEST

/* What it is does not depend on who reaches it. */
START_TEST(memory_is_its_own_devices)
{
        CUdeviceptr address;
        int device = -1;

        contexts_make();
        use(0);
        address = place(create_on(1));
        allow(address, 0, BOTH);
        ck_ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
        ck_assert_int_eq(device, 1);
}
END_TEST

START_TEST(reading_is_not_writing)
{
        CUdeviceptr address;

        contexts_make();
        address = place(create_on(0));
        allow(address, 0, BOTH);
        allow(address, 1, READ);
        use(1);
        ck_assert_uint_eq(contract_read(address), 0);
        ck_cuda(INVALID, fill(address, 1));
        ck_ok(cu.cuCtxSynchronize());
}
END_TEST

/* A fd that one process made on a device, mapped by another for both. */
static void write_for_other(int socket)
{
        CUdeviceptr address;
        int fd = contract_receive(socket, 'h');

        contexts_make();
        address = place(contract_import(fd));
        allow_both(address);
        use(0);
        ck_ok(fill(address, 0x66));
        contract_send(socket, 'w', -1);
}

START_TEST(what_is_imported_is_reached_alike)
{
        struct contract_peer peer = contract_start(write_for_other);
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;

        contexts_make();
        handle = create_on(1);
        address = place(handle);
        allow(address, 1, BOTH);
        contract_send(peer.socket, 'h', contract_export(handle));
        (void)contract_receive(peer.socket, 'w');
        use(1);
        ck_assert_uint_eq(contract_read(address + GRANULE - 1), 0x66);
        contract_finish(&peer);
}
END_TEST

static int one_device(void)
{
        const char *devices = getenv("GPUMEM_TEST_DEVICES");

        return devices && strcmp(devices, "1") == 0;
}

/* What one device cannot try is left out, and said so. */
static void add(TCase *tcase, const TTest *test, const char *name)
{
        if (one_device())
                (void)printf("# left out: %s: one device only\n", name);
        else
                tcase_add_test(tcase, test);
        (void)fflush(stdout);
}

#define ADD(test) add(tcase, test, #test)

int main(void)
{
        Suite *suite = suite_create("peers");
        TCase *tcase = contract_case(suite, "peers");

        tcase_add_test(tcase, who_can_reach_whom_is_told);
        tcase_add_loop_test(tcase, memory_is_accessible_from_the_devices_that_were_named, 1,
                            one_device() ? 2 : 4);
        ADD(a_handle_is_mapped_again_for_the_other_device);
        ADD(two_devices_are_peers);
        ADD(more_access_takes_none_away);
        ADD(with_access_each_works_on_the_others_memory);
        ADD(copies_go_from_device_to_device);
        ADD(calls_without_access_are_refused);
        ADD(access_that_was_taken_away_is_gone);
        ADD(access_is_given_while_work_goes_on);
        ADD(events_are_for_all_devices);
        ADD(memory_is_its_own_devices);
        ADD(reading_is_not_writing);
        ADD(what_is_imported_is_reached_alike);
        return contract_main(suite);
}
