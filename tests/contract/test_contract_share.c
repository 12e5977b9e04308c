/* SPDX-License-Identifier: Apache-2.0 */
/* Memory between processes: exports, imports, and what keeps memory alive. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)256 << 20)

/* Makes a block with a byte in it, hands its fd over, and lives until it is killed. */
static void creator(int socket)
{
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_create(LARGE, FD), LARGE);
        contract_write(block.address, 0x5A);
        contract_send(socket, 'c', contract_export(block.handle));
        (void)contract_receive(socket, 'x');
}

/* Gets a fd, reads the byte behind it, writes another. */
static void reader(int socket)
{
        int fd = contract_receive(socket, 'r');
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_import(fd), LARGE);
        ck_assert_uint_eq(contract_read(block.address), 0x5A);
        contract_write(block.address + 1, 0x5B);
        contract_send(socket, 'd', -1);
}

static void await_free_bytes(size_t n_bytes)
{
        int n_looks = 0;

        while (contract_free_bytes() < n_bytes)
                contract_pause(&n_looks);
}

TEST(a_fd_alone_keeps_the_memory)
{
        struct contract_peer owner = contract_start(creator);
        struct contract_peer other = contract_start(reader);
        int fd = contract_receive(owner.socket, 'c');
        size_t n_held;

        contract_kill(&owner);
        contract_send(other.socket, 'r', fd);
        (void)contract_receive(other.socket, 'd');
        contract_finish(&other);
        (void)contract_context();
        n_held = contract_free_bytes();
        (void)close(fd);
        await_free_bytes(n_held + LARGE / 2);
}

TEST(memory_returns_with_its_last_reference)
{
        struct contract_block block;
        size_t n_before, n_held;
        int fd;

        (void)contract_context();
        n_before = contract_free_bytes();
        block = contract_map(contract_create(LARGE, FD), LARGE);
        fd = contract_export(block.handle);
        n_held = contract_free_bytes();
        ck_assert_uint_le(n_held, n_before - LARGE);
        ck_ok(cu.cuMemRelease(block.handle));
        ck_assert_uint_eq(contract_free_bytes(), n_held);
        ck_assert_int_eq(close(fd), 0);
        ck_assert_uint_eq(contract_free_bytes(), n_held);
        contract_write(block.address, 1);
        contract_unmap(&block);
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}

TEST(closing_the_last_fd_returns_memory)
{
        CUmemGenericAllocationHandle handle;
        size_t n_held;
        int fd;

        (void)contract_context();
        handle = contract_create(LARGE, FD);
        fd = contract_export(handle);
        ck_ok(cu.cuMemRelease(handle));
        n_held = contract_free_bytes();
        ck_assert_int_eq(close(fd), 0);
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}

TEST(a_fd_is_imported_repeatedly)
{
        struct contract_block first, second;
        int fd;

        (void)contract_context();
        fd = contract_export(contract_create(GRANULE, FD));
        first = contract_map(contract_import(fd), GRANULE);
        second = contract_map(contract_import(fd), GRANULE);
        contract_write(first.address, 0x11);
        ck_assert_uint_eq(contract_read(second.address), 0x11);
        ck_ok(cu.cuMemRelease(first.handle));
        contract_unmap(&first);
        ck_assert_uint_eq(contract_read(second.address), 0x11);
}

TEST(every_fd_brings_its_own_memory)
{
        enum { N = 4 };
        int fds[N];

        (void)contract_context();
        for (unsigned char i = 0; i < N; i++) {
                struct contract_block block = contract_map(contract_create(GRANULE, FD), GRANULE);

                contract_write(block.address, (unsigned char)(i + 1));
                fds[i] = contract_export(block.handle);
        }
        for (unsigned char i = N; i > 0; i--)
                ck_assert_uint_eq(
                        contract_read(contract_map(contract_import(fds[i - 1]), GRANULE).address),
                        i);
}

TEST(several_processes_import_one_fd)
{
        struct contract_peer owner = contract_start(creator);
        struct contract_peer readers[3];
        int fd;

        for (int i = 0; i < 3; i++)
                readers[i] = contract_start(reader);
        fd = contract_receive(owner.socket, 'c');
        for (int i = 0; i < 3; i++)
                contract_send(readers[i].socket, 'r', fd);
        for (int i = 0; i < 3; i++) {
                (void)contract_receive(readers[i].socket, 'd');
                contract_finish(&readers[i]);
        }
        contract_kill(&owner);
}

static void foreign_reader(int socket)
{
        ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
        reader(socket);
}

/* Started by root only. */
TEST(another_user_imports_a_fd, NEEDS_ROOT)
{
        struct contract_peer owner = contract_start(creator);
        struct contract_peer other = contract_start(foreign_reader);

        contract_send(other.socket, 'r', contract_receive(owner.socket, 'c'));
        (void)contract_receive(other.socket, 'd');
        contract_finish(&other);
        contract_kill(&owner);
}

TEST(an_imported_handle_is_not_exported)
{
        CUmemGenericAllocationHandle imported;
        int fd, again;

        contract_init();
        fd = contract_export(contract_create(GRANULE, FD));
        imported = contract_import(fd);
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&again, imported, FD, 0));
        ck_ok(cu.cuMemRelease(imported));
}

TEST(a_mapping_outlives_the_killed_owner)
{
        struct contract_peer owner = contract_start(creator);
        int fd = contract_receive(owner.socket, 'c');
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_import(fd), LARGE);
        (void)close(fd);
        ck_ok(cu.cuMemRelease(block.handle));
        contract_kill(&owner);
        ck_assert_uint_eq(contract_read(block.address), 0x5A);
        contract_write(block.address + LARGE - 1, 0x33);
        ck_assert_uint_eq(contract_read(block.address + LARGE - 1), 0x33);
}

TEST(a_killed_process_leaves_no_memory_in_use)
{
        struct contract_peer holder = contract_start(creator);
        int fd = contract_receive(holder.socket, 'c');
        size_t n_held;

        (void)close(fd);
        (void)contract_context();
        n_held = contract_free_bytes();
        contract_kill(&holder);
        await_free_bytes(n_held + LARGE);
}

static void host_reader(int socket)
{
        int fd = contract_receive(socket, 'h');
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;

        contract_init();
        handle = contract_import(fd);
        ck_ok(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(address, GRANULE, 0, handle, 0));
        ck_ok(cu.cuMemSetAccess(address, GRANULE, &access, 1));
        ck_assert_str_eq((const char *)(uintptr_t)address, "from the device");
        memcpy((char *)(uintptr_t)address, "from the CPU", 13);
        contract_send(socket, 'd', -1);
}

TEST(host_memory_is_exported_and_read_by_the_cpu)
{
        struct contract_peer other = contract_start(host_reader);
        CUmemAllocationProp properties = contract_properties(FD);
        struct contract_block block;
        CUmemGenericAllocationHandle handle;
        char text[16];

        (void)contract_context();
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        block = contract_map(handle, GRANULE);
        ck_ok(cu.cuMemcpyHtoD(block.address, "from the device", sizeof("from the device")));
        contract_send(other.socket, 'h', contract_export(handle));
        (void)contract_receive(other.socket, 'd');
        ck_ok(cu.cuMemcpyDtoH(text, block.address, sizeof(text)));
        ck_assert_str_eq(text, "from the CPU");
        contract_finish(&other);
}

TEST(exportable_memory_of_location_host_is_refused)
{
        CUmemAllocationProp properties = contract_properties(FD);
        CUmemGenericAllocationHandle handle;

        contract_init();
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
        ck_cuda(INVALID, cu.cuMemCreate(&handle, GRANULE, &properties, 0));
}

TEST(an_exported_fd_is_closed_on_exec)
{
        int fd;

        contract_init();
        fd = contract_export(contract_create(GRANULE, FD));
        ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* A handle that is none, and no place for the fd, are left out: the driver may crash. */
TEST(export_refuses_memory_that_was_not_made_for_it)
{
        int fd = -5;

        contract_init();
        ck_cuda(INVALID,
                cu.cuMemExportToShareableHandle(&fd, contract_create(GRANULE, NONE), FD, 0));
        ck_assert_int_eq(fd, -5);
}

TEST(export_refuses_flags)
{
        int fd = -5;

        contract_init();
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&fd, contract_create(GRANULE, FD), FD, 1));
        ck_assert_int_eq(fd, -5);
}

TEST(import_does_not_know_what_is_no_memory)
{
        intptr_t null = open("/dev/null", O_RDWR | O_CLOEXEC);
        CUmemGenericAllocationHandle handle;

        contract_init();
        ck_cuda(CUDA_ERROR_UNKNOWN, cu.cuMemImportFromShareableHandle(&handle, (void *)null, FD));
}

TEST(import_does_not_know_what_is_not_open)
{
        CUmemGenericAllocationHandle handle;

        contract_init();
        ck_cuda(CUDA_ERROR_UNKNOWN,
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)1000000, FD));
}

TEST(a_forked_child_has_no_driver)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        CUmemGenericAllocationHandle handle;
        int status, wrong = 0;
        pid_t child;

        contract_init();
        child = fork();
        if (child == 0) {
                wrong += cu.cuMemCreate(&handle, GRANULE, &properties, 0) !=
                         CUDA_ERROR_NOT_INITIALIZED;
                wrong += cu.cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
                _exit(wrong);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
}

CONTRACT_MAIN("share")
