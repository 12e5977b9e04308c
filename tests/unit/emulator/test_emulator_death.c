/* SPDX-License-Identifier: Apache-2.0 */
/* What death leaves behind on the emulated device, and whose memory is believed to be memory. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/contract/contract.h"

#define FD    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define NONE  CU_MEM_HANDLE_TYPE_NONE
#define MIB   ((size_t)1 << 20)
#define TOTAL (1024 * MIB)
#define BLOCK (64 * MIB)

static size_t used(void)
{
        return TOTAL - contract_free_bytes();
}

static CUresult create(size_t n_bytes, CUmemGenericAllocationHandle *ret_handle)
{
        CUmemAllocationProp properties = contract_properties(FD);

        return cu.cuMemCreate(ret_handle, n_bytes, &properties, 0);
}

/* Holds a block with a byte in it until it is killed; hands out a fd of it. */
static void holder(int socket)
{
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_create(BLOCK, FD), BLOCK);
        contract_write(block.address, 0x7E);
        contract_send(socket, 'h', contract_export(block.handle));
        (void)contract_receive(socket, 'x');
}

TEST(a_killed_process_s_memory_comes_back_after_the_delay)
{
        struct contract_peer dead;
        CUmemGenericAllocationHandle handle;
        uint64_t seen_at;
        int n_looks = 0;

        contract_configure("bytes=1GiB,reclaim_ms=2000");
        dead = contract_start(holder);
        (void)close(contract_receive(dead.socket, 'h'));
        (void)contract_context();
        contract_kill(&dead);
        seen_at = clock_now_ms();
        ck_assert_uint_eq(used(), BLOCK);
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, create(TOTAL, &handle));
        while (used())
                contract_pause(&n_looks);
        ck_assert_uint_ge(clock_now_ms() - seen_at, 1999);
        ck_ok(create(TOTAL, &handle));
}

TEST(a_dead_process_s_memory_is_found_by_who_needs_it)
{
        struct contract_peer dead;
        CUmemGenericAllocationHandle handle;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        dead = contract_start(holder);
        (void)close(contract_receive(dead.socket, 'h'));
        (void)contract_context();
        contract_kill(&dead);
        ck_ok(create(TOTAL, &handle));
}

/* Takes and lets go without end, and says so every time. */
static void restless(int socket)
{
        contract_init();
        for (size_t i = 0;; i++) {
                CUmemGenericAllocationHandle handles[3];

                for (size_t j = 0; j < 3; j++)
                        ck_ok(create(2 * MIB * (1 + (i + j) % 5), &handles[j]));
                for (size_t j = 0; j < 3; j++)
                        ck_ok(cu.cuMemRelease(handles[j]));
                contract_send(socket, 'r', -1);
        }
}

TEST(death_at_any_moment_loses_nothing)
{
        enum { ROUNDS = 40 };
        struct contract_peer peers[ROUNDS];
        CUmemGenericAllocationHandle handle;
        int n_looks = 0;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        for (int i = 0; i < ROUNDS; i++) {
                peers[i] = contract_start(restless);
                for (int j = 0; j <= i; j++)
                        (void)contract_receive(peers[i].socket, 'r');
                contract_kill(&peers[i]);
        }
        (void)contract_context();
        while (used())
                contract_pause(&n_looks);
        ck_ok(create(TOTAL, &handle));
        ck_assert_uint_eq(used(), TOTAL);
}

TEST(memory_goes_on_while_another_holds_it)
{
        struct contract_peer dead;
        struct contract_block block;
        int fd;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        dead = contract_start(holder);
        fd = contract_receive(dead.socket, 'h');
        (void)contract_context();
        block = contract_map(contract_import(fd), BLOCK);
        (void)close(fd);
        contract_kill(&dead);
        ck_assert_uint_eq(used(), BLOCK);
        ck_assert_uint_eq(contract_read(block.address), 0x7E);
        contract_unmap(&block);
        ck_assert_uint_eq(used(), BLOCK);
        /* The last reference, given up explicitly. */
        ck_ok(cu.cuMemRelease(block.handle));
        ck_assert_uint_eq(used(), 0);
}

TEST(a_fd_in_flight_keeps_the_memory)
{
        struct pollfd arrival = {.events = POLLIN};
        struct contract_peer dead;
        struct contract_block block;
        int fd;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        dead = contract_start(holder);
        (void)contract_context();
        arrival.fd = dead.socket;
        ck_assert_int_eq(poll(&arrival, 1, CONTRACT_PATIENCE_MS), 1);
        ck_assert_int_eq(kill(dead.pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(dead.pid, NULL, 0), dead.pid);
        ck_assert_uint_eq(used(), BLOCK);
        ck_assert_uint_eq(used(), BLOCK);
        fd = contract_receive(dead.socket, 'h');
        block = contract_map(contract_import(fd), BLOCK);
        ck_assert_uint_eq(contract_read(block.address), 0x7E);
        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(block.handle));
        ck_assert_uint_eq(used(), BLOCK);
        (void)close(fd);
        ck_assert_uint_eq(used(), 0);
}

TEST(a_mapping_of_the_file_alone_keeps_the_memory)
{
        CUmemGenericAllocationHandle handle;
        void *bytes;
        int fd;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        (void)contract_context();
        handle = contract_create(BLOCK, FD);
        fd = contract_export(handle);
        bytes = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, lseek(fd, 0, SEEK_CUR));
        ck_assert_ptr_ne(bytes, MAP_FAILED);
        ck_assert_int_eq(close(fd), 0);
        ck_ok(cu.cuMemRelease(handle));
        ck_assert_uint_eq(used(), BLOCK);
        ck_assert_int_eq(munmap(bytes, 4096), 0);
        ck_assert_uint_eq(used(), 0);
}

/* A process with memory, and a forked child that outlives it. */
static void parent_of_a_child(int socket)
{
        (void)contract_context();
        (void)contract_map(contract_create(BLOCK, FD), BLOCK);
        if (fork() == 0) {
                contract_send(socket, 'c', -1);
                (void)contract_receive(socket, 'x');
                _exit(EXIT_SUCCESS);
        }
        (void)pause();
}

TEST(a_forked_child_keeps_its_killed_parent_s_memory)
{
        struct contract_peer parent;
        int n_looks = 0;

        contract_configure("bytes=1GiB,reclaim_ms=0");
        parent = contract_start(parent_of_a_child);
        (void)contract_receive(parent.socket, 'c');
        (void)contract_context();
        ck_assert_int_eq(kill(parent.pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(parent.pid, NULL, 0), parent.pid);
        ck_assert_uint_eq(used(), BLOCK);
        contract_send(parent.socket, 'x', -1);
        while (used())
                contract_pause(&n_looks);
}

TEST(a_forked_child_does_not_keep_what_is_released)
{
        struct contract_block block;
        CUdeviceptr address;
        pid_t child;

        (void)contract_context();
        block = contract_map(contract_create(BLOCK, NONE), BLOCK);
        ck_ok(cu.cuMemAlloc(&address, BLOCK));
        child = fork();
        if (child == 0) {
                (void)pause();
                _exit(EXIT_SUCCESS);
        }
        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(block.handle));
        ck_assert_uint_eq(used(), BLOCK);
        ck_ok(cu.cuMemFree(address));
        ck_assert_uint_eq(used(), 0);
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static const char *directory(void)
{
        return strstr(getenv("GPUMEM_EMULATOR"), "dir=") + strlen("dir=");
}

static void import_refused(int fd)
{
        CUmemGenericAllocationHandle handle;

        ck_cuda(CUDA_ERROR_UNKNOWN,
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, FD));
}

TEST(a_file_of_the_machine_is_no_memory_without_its_lock)
{
        CUmemGenericAllocationHandle handle;
        char path[512];
        int fd;

        contract_init();
        handle = contract_create(BLOCK, FD);
        (void)snprintf(path, sizeof(path), "%s/device-0", directory());
        fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        import_refused(fd);
        ck_ok(cu.cuMemRelease(handle));
        import_refused(fd);
        (void)snprintf(path, sizeof(path), "%s/layout", directory());
        fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        import_refused(fd);
}

/* Holds memory of another machine. */
static void stranger(int socket)
{
        contract_configure("bytes=1GiB,devices=2");
        holder(socket);
}

TEST(memory_of_another_machine_is_refused)
{
        struct contract_peer other = contract_start(stranger);
        int fd = contract_receive(other.socket, 'h');

        (void)contract_context();
        import_refused(fd);
        ck_assert_uint_eq(used(), 0);
        contract_kill(&other);
}

CONTRACT_MAIN("death")
