/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemAlloc as a handle of 64 bytes, which another process opens. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define LARGE   ((size_t)256 << 20)
#define LAZY    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define INVALID CUDA_ERROR_INVALID_VALUE

static void handle_send(int socket, const CUipcMemHandle *handle)
{
        ck_assert_int_eq(send(socket, handle, sizeof(*handle), MSG_NOSIGNAL), sizeof(*handle));
}

static CUipcMemHandle handle_receive(int socket)
{
        CUipcMemHandle handle;

        ck_assert_int_eq(recv(socket, &handle, sizeof(handle), 0), sizeof(handle));
        return handle;
}

static CUipcMemHandle handle_of(CUdeviceptr address)
{
        CUipcMemHandle handle;

        ck_ok(cu.cuIpcGetMemHandle(&handle, address));
        return handle;
}

static CUdeviceptr open_memory(CUipcMemHandle handle)
{
        CUdeviceptr address;

        ck_ok(cu.cuIpcOpenMemHandle(&address, handle, LAZY));
        return address;
}

/* Hands out memory with a byte in it; frees it when it is told to, and ends when it is told again. */
static void owner(int socket)
{
        CUipcMemHandle handle;
        CUdeviceptr address = contract_alloc(LARGE);

        contract_write(address, 0x5A);
        handle = handle_of(address);
        handle_send(socket, &handle);
        (void)contract_receive(socket, 'f');
        ck_ok(cu.cuMemFree(address));
        contract_send(socket, 'f', -1);
        (void)contract_receive(socket, 'x');
}

/* Opens what it is handed once, and answers with the result. */
static void opener(int socket)
{
        CUipcMemHandle handle = handle_receive(socket);
        CUdeviceptr address;
        CUresult result;

        (void)contract_context();
        result = cu.cuIpcOpenMemHandle(&address, handle, LAZY);
        if (result == CUDA_SUCCESS) {
                ck_assert_uint_eq(contract_read(address), 0x5A);
                contract_write(address + 1, 0x5B);
                ck_ok(cu.cuIpcCloseMemHandle(address));
        }
        ck_assert_int_eq(send(socket, &result, sizeof(result), MSG_NOSIGNAL), sizeof(result));
}

static CUresult opened_by(const struct contract_peer *peer, const CUipcMemHandle *handle)
{
        CUresult result;

        handle_send(peer->socket, handle);
        ck_assert_int_eq(recv(peer->socket, &result, sizeof(result), 0), sizeof(result));
        contract_finish(peer);
        return result;
}

TEST(memory_of_whole_granules_begins_at_one)
{
        static const size_t n_granules[] = {1, 2, 3, 10, 64};

        (void)contract_context();
        for (int i = 0; i < 5; i++)
                ck_assert_uint_eq(
                        contract_alloc(n_granules[i] * CONTRACT_GRANULE) % CONTRACT_GRANULE, 0);
}

TEST(another_process_opens_memory_by_its_handle)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;

        (void)contract_context();
        address = open_memory(handle);
        ck_assert_uint_eq(address % CONTRACT_GRANULE, 0);
        ck_assert_uint_eq(contract_read(address), 0x5A);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        contract_kill(&peer);
}

TEST(memory_opened_again_is_at_the_same_address_and_counted)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;

        (void)contract_context();
        address = open_memory(handle);
        ck_assert_uint_eq(open_memory(handle), address);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        ck_assert_uint_eq(contract_read(address), 0x5A);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        ck_cuda(INVALID, cu.cuIpcCloseMemHandle(address));
        contract_kill(&peer);
}

TEST(its_owner_cannot_open_it)
{
        CUdeviceptr opened;
        CUdeviceptr address = contract_alloc(LARGE);

        ck_cuda(CUDA_ERROR_INVALID_CONTEXT,
                cu.cuIpcOpenMemHandle(&opened, handle_of(address), LAZY));
        ck_cuda(INVALID, cu.cuIpcCloseMemHandle(address));
}

TEST(a_handle_is_of_all_of_an_allocation)
{
        struct contract_block block;
        CUdeviceptr address = contract_alloc(LARGE);
        CUipcMemHandle first = handle_of(address), second = handle_of(address + 4096);

        ck_assert_mem_eq(&first, &second, sizeof(first));
        ck_cuda(INVALID, cu.cuIpcGetMemHandle(&first, 12345));
        block = contract_map(
                contract_create(CONTRACT_GRANULE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                CONTRACT_GRANULE);
        ck_cuda(INVALID, cu.cuIpcGetMemHandle(&first, block.address));
}

TEST(opening_and_closing_need_a_context)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address, opened;

        contract_init();
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
        (void)contract_context();
        opened = open_memory(handle);
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuIpcCloseMemHandle(opened));
        contract_kill(&peer);
}

TEST(what_is_no_handle_is_refused)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;

        (void)contract_context();
        ck_cuda(INVALID, cu.cuIpcOpenMemHandle(&address, handle, 0));
        memset(&handle, 7, sizeof(handle));
        ck_cuda(INVALID, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
        ck_cuda(INVALID, cu.cuIpcCloseMemHandle(777));
        contract_kill(&peer);
}

static int is_ipc_capable(CUdeviceptr address)
{
        unsigned char capable = 2;

        ck_ok(cu.cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                       address));
        return capable;
}

TEST(opened_memory_is_not_ones_own)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address, base;
        size_t n_bytes;

        (void)contract_context();
        address = open_memory(handle);
        ck_cuda(INVALID, cu.cuMemFree(address));
        ck_cuda(INVALID, cu.cuIpcGetMemHandle(&handle, address));
        ck_cuda(INVALID, cu.cuIpcCloseMemHandle(address + CONTRACT_GRANULE));
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, address + 5000));
        ck_assert_uint_eq(base, address);
        ck_assert_uint_eq(n_bytes, LARGE);
        ck_assert_int_eq(is_ipc_capable(address), 0);
        ck_assert_int_eq(is_ipc_capable(contract_alloc(LARGE)), 1);
        contract_kill(&peer);
}

TEST(memory_that_its_owner_frees_stays_until_it_is_closed)
{
        struct contract_peer peer = contract_start(owner), late = contract_start(opener);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;
        size_t n_held;

        (void)contract_context();
        address = open_memory(handle);
        contract_send(peer.socket, 'f', -1);
        (void)contract_receive(peer.socket, 'f');
        ck_assert_uint_eq(contract_read(address), 0x5A);
        ck_cuda(INVALID, opened_by(&late, &handle));
        ck_assert_uint_eq(open_memory(handle), address);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        n_held = contract_free_bytes();
        ck_ok(cu.cuIpcCloseMemHandle(address));
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
        contract_kill(&peer);
}

TEST(memory_outlives_its_killed_owner_where_it_is_open)
{
        struct contract_peer peer = contract_start(owner), late = contract_start(opener);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;
        size_t n_held;

        (void)contract_context();
        address = open_memory(handle);
        contract_kill(&peer);
        ck_assert_uint_eq(contract_read(address), 0x5A);
        contract_write(address, 0x6B);
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, opened_by(&late, &handle));
        ck_assert_uint_eq(open_memory(handle), address);
        ck_assert_uint_eq(contract_read(address), 0x6B);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        n_held = contract_free_bytes();
        ck_ok(cu.cuIpcCloseMemHandle(address));
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}

TEST(several_processes_open_one_handle)
{
        struct contract_peer peer = contract_start(owner);
        struct contract_peer openers[3];
        CUipcMemHandle handle;

        for (int i = 0; i < 3; i++)
                openers[i] = contract_start(opener);
        handle = handle_receive(peer.socket);
        for (int i = 0; i < 3; i++)
                ck_ok(opened_by(&openers[i], &handle));
        contract_kill(&peer);
}

static void foreign_opener(int socket)
{
        ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
        opener(socket);
}

/* Started by root only. */
TEST(another_user_opens_a_handle, NEEDS_ROOT)
{
        struct contract_peer peer = contract_start(owner);
        struct contract_peer other = contract_start(foreign_opener);
        CUipcMemHandle handle = handle_receive(peer.socket);

        ck_ok(opened_by(&other, &handle));
        contract_kill(&peer);
}

TEST(closing_waits_for_running_work)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        struct contract_gate gate;
        CUdeviceptr address;
        CUstream stream;

        (void)contract_context();
        address = open_memory(handle);
        ck_assert_uint_eq(open_memory(handle), address);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 2; i++) {
                contract_hold(stream, &gate);
                contract_await(&gate);
                contract_open_later(&gate);
                ck_ok(cu.cuIpcCloseMemHandle(address));
                ck_assert_int_eq(__atomic_load_n(&gate.opened, __ATOMIC_ACQUIRE), 1);
        }
        contract_kill(&peer);
}

TEST(a_capture_does_not_mind)
{
        struct contract_peer peer = contract_start(owner);
        CUipcMemHandle handle = handle_receive(peer.socket);
        CUdeviceptr address;
        CUgraph graph;
        CUdeviceptr own = contract_alloc(LARGE);
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        (void)handle_of(own);
        address = open_memory(handle);
        ck_ok(cu.cuIpcCloseMemHandle(address));
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        contract_kill(&peer);
}

CONTRACT_MAIN("ipc")
