/* SPDX-License-Identifier: Apache-2.0 */
/* What a killed process leaves behind, and what a process costs that has not much. */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define FD    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MIB   ((size_t)1 << 20)
#define LARGE (256 * MIB)
#define PAGE  4096

/* Looks of contract_pause while nothing may come about. */
#define N_IN_VAIN 100

#define N_AT_REST 50

/* As one of many that use the machine, so with room for what others do meanwhile. */
#define LITTLE (16 * MIB)
#define MUCH   (64 * MIB)

static void modest(int socket)
{
        contract_init();
        contract_send(socket, 'i', contract_export(contract_create(2 * MIB, FD)));
        (void)contract_receive(socket, 'c');
        (void)contract_context();
        contract_send(socket, 'd', -1);
        (void)contract_receive(socket, 'x');
}

TEST(a_process_without_a_context_costs_little)
{
        struct contract_peer other;
        size_t n_before, n_without;

        contract_configure(CONTRACT_OPTIONS ",ctx_bytes=128MiB");
        other = contract_start(modest);
        (void)contract_context();
        n_before = contract_free_bytes();
        (void)close(contract_receive(other.socket, 'i'));
        n_without = contract_free_bytes();
        ck_assert_uint_le(n_before, n_without + LITTLE);
        contract_send(other.socket, 'c', -1);
        (void)contract_receive(other.socket, 'd');
        ck_assert_uint_ge(n_without, contract_free_bytes() + MUCH);
        contract_kill(&other);
}

static void await_readable(int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        ck_assert_int_eq(poll(&look, 1, CONTRACT_PATIENCE_MS), 1);
}

static int pidfd_of(pid_t pid)
{
        int fd = (int)syscall(SYS_pidfd_open, pid, 0);

        ck_assert_int_ge(fd, 0);
        return fd;
}

static void worker(int socket)
{
        struct contract_block block;
        CUstream stream;

        (void)contract_context();
        block = contract_map(contract_create(LARGE, FD), LARGE);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        for (unsigned i = 0; i < 100; i++)
                ck_ok(cu.cuMemsetD8Async(block.address, (unsigned char)i, LARGE, stream));
        contract_send(socket, 'w', -1);
        (void)pause();
}

TEST(a_killed_process_s_socket_pidfd_and_memory_end)
{
        struct contract_peer peer = contract_start(worker);
        int n_looks = 0, pidfd;
        size_t n_held;

        (void)contract_receive(peer.socket, 'w');
        (void)contract_context();
        n_held = contract_free_bytes();
        pidfd = pidfd_of(peer.pid);
        ck_assert_int_eq(kill(peer.pid, SIGKILL), 0);
        await_readable(peer.socket);
        await_readable(pidfd);
        while (contract_free_bytes() < n_held + LARGE)
                contract_pause(&n_looks);
        ck_assert_int_eq(waitpid(peer.pid, NULL, 0), peer.pid);
        (void)close(pidfd);
}

/* In a memfd that the killed process had registered. */
struct words {
        uint64_t started;
        uint64_t go;
        uint64_t done;
};

static struct words *words_map(int fd)
{
        void *bytes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

/* And then a little: what a thread of the emulated driver has locked at a fork, a sanitizer's allocator
 * too, stays locked in the child. */
static void await_start(struct words *words)
{
        int n_looks = 0;

        while (!__atomic_load_n(&words->started, __ATOMIC_ACQUIRE))
                contract_pause(&n_looks);
        for (unsigned i = 0; i < N_AT_REST; i++)
                contract_pause(&n_looks);
}

/* Enqueues work that waits for a word, and what says that it is done. */
static void enqueue(int socket)
{
        struct words *words = words_map(contract_receive(socket, 'm'));
        CUdeviceptr address = (uintptr_t)words;
        struct contract_block block;
        CUstream stream;

        (void)contract_context();
        block = contract_map(contract_create(2 * MIB, FD), 2 * MIB);
        ck_ok(cu.cuMemHostRegister(words, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamWriteValue64(stream, address + offsetof(struct words, started), 1, 0));
        ck_ok(cu.cuStreamWaitValue64(stream, address + offsetof(struct words, go), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuMemsetD8Async(block.address, 0x5C, 2 * MIB, stream));
        ck_ok(cu.cuStreamWriteValue64(stream, address + offsetof(struct words, done), 1, 0));
        await_start(words);
        contract_send(socket, 'q', contract_export(block.handle));
}

static void alone(int socket)
{
        enqueue(socket);
        (void)pause();
}

static void with_a_child(int socket)
{
        enqueue(socket);
        if (fork() == 0) {
                contract_send(socket, 'c', -1);
                (void)contract_receive(socket, 'x');
                _exit(EXIT_SUCCESS);
        }
        (void)pause();
}

struct left {
        struct contract_peer peer;
        struct contract_block block;
        struct words *words;
};

/* Its work is enqueued, and it is dead. */
static struct left start_and_kill(void (*function)(int socket))
{
        struct left left = {.peer = contract_start(function)};
        int fd = memfd_create("words", MFD_CLOEXEC), pidfd;

        ck_assert_int_eq(ftruncate(fd, PAGE), 0);
        left.words = words_map(fd);
        contract_send(left.peer.socket, 'm', fd);
        fd = contract_receive(left.peer.socket, 'q');
        if (function == with_a_child)
                (void)contract_receive(left.peer.socket, 'c');
        (void)contract_context();
        left.block = contract_map(contract_import(fd), 2 * MIB);
        pidfd = pidfd_of(left.peer.pid);
        ck_assert_int_eq(kill(left.peer.pid, SIGKILL), 0);
        await_readable(pidfd);
        ck_assert_int_eq(waitpid(left.peer.pid, NULL, 0), left.peer.pid);
        (void)close(pidfd);
        ck_assert_uint_eq(contract_read(left.block.address), 0);
        __atomic_store_n(&left.words->go, 1, __ATOMIC_RELEASE);
        return left;
}

TEST(a_killed_process_s_work_is_not_done)
{
        struct left left = start_and_kill(alone);

        for (int n_looks = 0; n_looks < N_IN_VAIN;)
                contract_pause(&n_looks);
        ck_assert_uint_eq(__atomic_load_n(&left.words->done, __ATOMIC_ACQUIRE), 0);
        ck_assert_uint_eq(contract_read(left.block.address), 0);
}

/* The end of the process, which its pidfd tells, is not the end of its work. */
TEST(a_killed_process_s_work_goes_on_while_a_forked_child_lives)
{
        struct left left = start_and_kill(with_a_child);
        int n_looks = 0;

        while (!__atomic_load_n(&left.words->done, __ATOMIC_ACQUIRE))
                contract_pause(&n_looks);
        ck_assert_uint_eq(contract_read(left.block.address + 2 * MIB - 1), 0x5C);
        contract_send(left.peer.socket, 'x', -1);
}

CONTRACT_MAIN("death")
