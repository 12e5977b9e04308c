/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts beside each other, of one device and of two: whose work waits for whose, and what one does to the other. */
#include <stdio.h>

#include "tests/contract/devices.h"

#define GRANULE CONTRACT_GRANULE

/* Device 0's stream is held up before it writes. */
TEST(access_is_given_while_work_goes_on, NEEDS_TWO_DEVICES)
{
        struct contract_gate gate;
        CUdeviceptr address;
        CUstream stream;

        devices_open();
        devices_use(0);
        address = devices_place(devices_create(0));
        devices_allow(address, 0, DEVICES_BOTH);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x33, GRANULE / 2, stream));
        contract_await(&gate);
        devices_allow(address, 1, DEVICES_BOTH);
        devices_use(1);
        ck_ok(cu.cuMemsetD8(address + GRANULE / 2, 0x44, GRANULE / 2));
        ck_assert_uint_eq(contract_read(address + GRANULE - 1), 0x44);
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(address), 0x33);
}

/* An event of the one device is asked for, and waited for, in whichever context is current. */
TEST(events_are_for_all_devices, NEEDS_TWO_DEVICES)
{
        struct contract_gate gate;
        CUstream streams[2];
        CUdeviceptr address;
        CUevent event;

        devices_open();
        address = devices_place(devices_create(0));
        devices_allow_both(address);
        for (int i = 0; i < 2; i++) {
                devices_use(i);
                streams[i] = contract_stream(CU_STREAM_NON_BLOCKING);
        }
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(streams[1], &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x77, GRANULE, streams[1]));
        ck_ok(cu.cuEventRecord(event, streams[1]));
        devices_use(0);
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

/* What one device does to an address that is none is the other one's end too. */
TEST(an_illegal_address_spoils_the_other_devices_context, NEEDS_TWO_DEVICES)
{
        struct contract_gate gate;
        CUdeviceptr address;
        CUstream stream;
        CUresult result;

        devices_open();
        devices_use(0);
        address = devices_place(devices_create(0));
        devices_allow(address, 0, DEVICES_BOTH);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 1, GRANULE, stream));
        contract_await(&gate);
        ck_ok(cu.cuMemUnmap(address, GRANULE));
        contract_open(&gate);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        devices_use(1);
        result = cu.cuCtxSynchronize();
        (void)printf("# figure: the other device's context, after an illegal address: %d\n",
                     (int)result);
        (void)fflush(stdout);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, result);
}

/* It has a context and memory of its own, and goes on. */
static void go_on(int socket)
{
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, CU_MEM_HANDLE_TYPE_NONE), GRANULE);
        contract_send(socket, 'b', -1);
        (void)contract_receive(socket, 's');
        contract_write(block.address, 0x3C);
        ck_assert_uint_eq(contract_read(block.address), 0x3C);
        contract_send(socket, 'd', -1);
}

TEST(an_illegal_address_spoils_every_context_and_no_other_process)
{
        struct contract_peer peer = contract_start(go_on);
        CUcontext primary, created;
        struct contract_block block;
        struct contract_gate gate;
        CUstream stream;
        CUresult result;

        (void)contract_receive(peer.socket, 'b');
        primary = contract_context();
        ck_ok(cu.cuCtxCreate(&created, NULL, 0, 0));
        ck_ok(cu.cuCtxSetCurrent(primary));
        block = contract_map(contract_create(GRANULE, CU_MEM_HANDLE_TYPE_NONE), GRANULE);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(block.address, 1, GRANULE, stream));
        contract_await(&gate);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        contract_open(&gate);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        contract_send(peer.socket, 's', -1);
        (void)contract_receive(peer.socket, 'd');
        contract_finish(&peer);
        ck_ok(cu.cuCtxSetCurrent(created));
        result = cu.cuCtxSynchronize();
        (void)printf("# figure: another context of the device, after an illegal address: %d\n",
                     (int)result);
        (void)fflush(stdout);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, result);
}

CONTRACT_MAIN("peers_work")
