/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a killed process that a forked child keeps going on the emulated device; that it goes on at
 * all the contract says. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/live/support/asleep.h"

#define FD    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define BLOCK CONTRACT_GRANULE

/* Filled once the word is 1; then, behind a host function if the test wants one, the word becomes 2. */
static uint64_t *shared_word;
static void (*before_the_end)(void *argument);

static void nothing(void *argument)
{
        (void)argument;
}

/* Has queued that when its child is forked, and lives on. */
static void parent_with_work(int socket)
{
        CUdeviceptr word = (uintptr_t)shared_word;
        struct contract_block block;
        CUstream stream;

        (void)contract_context();
        block = contract_map(contract_create(BLOCK, FD), BLOCK);
        ck_ok(cu.cuMemHostRegister(shared_word, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamWaitValue64(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuMemsetD8Async(block.address, 0x7E, 4096, stream));
        if (before_the_end)
                ck_ok(cu.cuLaunchHostFunc(stream, before_the_end, NULL));
        ck_ok(cu.cuStreamWriteValue64(stream, word, 2, 0));
        contract_send(socket, 'h', contract_export(block.handle));
        (void)contract_receive(socket, 'f');
        if (fork() == 0) {
                contract_send(socket, 'c', -1);
                (void)contract_receive(socket, 'x');
                _exit(EXIT_SUCCESS);
        }
        (void)pause();
}

/* It forks while its stream's thread waits: what that holds at the moment, a lock of a sanitizer's
 * allocator too, the child finds held for ever. */
static struct contract_block start_with_work(struct contract_peer *ret_parent)
{
        int fd, n_looks = 0;

        shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(shared_word, MAP_FAILED);
        *ret_parent = contract_start(parent_with_work);
        fd = contract_receive(ret_parent->socket, 'h');
        while (!process_sleeps(ret_parent->pid))
                contract_pause(&n_looks);
        contract_send(ret_parent->socket, 'f', -1);
        (void)contract_receive(ret_parent->socket, 'c');
        (void)contract_context();
        return contract_map(contract_import(fd), BLOCK);
}

static void kill_parent(const struct contract_peer *parent)
{
        ck_assert_int_eq(kill(parent->pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(parent->pid, NULL, 0), parent->pid);
}

static void word_await(uint64_t number)
{
        int n_looks = 0;

        while (__atomic_load_n(shared_word, __ATOMIC_ACQUIRE) != number)
                contract_pause(&n_looks);
}

TEST(what_was_done_before_the_end_is_not_done_again)
{
        struct contract_peer parent;
        struct contract_block block = start_with_work(&parent);

        __atomic_store_n(shared_word, 1, __ATOMIC_RELEASE);
        word_await(2);
        contract_write(block.address, 0x11);
        kill_parent(&parent);
        for (int n_looks = 0; n_looks < 50;)
                contract_pause(&n_looks);
        ck_assert_uint_eq(contract_read(block.address), 0x11);
        contract_send(parent.socket, 'x', -1);
}

TEST(work_that_needs_the_dead_process_is_not_done)
{
        struct contract_peer parent;
        struct contract_block block;
        int n_looks = 0;

        before_the_end = nothing;
        block = start_with_work(&parent);
        kill_parent(&parent);
        __atomic_store_n(shared_word, 1, __ATOMIC_RELEASE);
        while (contract_read(block.address) != 0x7E)
                contract_pause(&n_looks);
        for (n_looks = 0; n_looks < 50;)
                contract_pause(&n_looks);
        ck_assert_uint_eq(__atomic_load_n(shared_word, __ATOMIC_ACQUIRE), 1);
        contract_send(parent.socket, 'x', -1);
}

CONTRACT_MAIN("orphaned_work")
