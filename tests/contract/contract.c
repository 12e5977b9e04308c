/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/contract.h"

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

#define NAME_OF(call)  NAME_OF_(call)
#define NAME_OF_(call) #call
#define PAUSE_US       2000
#define LATER_US       20000
#define ROOM_MIN       ((unsigned long)2 << 30)

struct contract_calls cu;

static char root[64]; /* under which every test has its machine */

static void *symbol(void *library, const char *name)
{
        void *found = dlsym(library, name);

        ck_assert_msg(found, "the driver has no %s", name);
        return found;
}

static void *library_open(void)
{
        const char *name = getenv("GPUMEM_CUDA_LIBRARY");

        return dlopen(name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void calls_load(void)
{
        void *library = library_open();

        ck_assert_msg(library, "%s", dlerror());
#define CUDA_REQUIRED(call) cu.call = (__typeof__(cu.call))symbol(library, NAME_OF(call));
#define CUDA_OPTIONAL(call) cu.call = (__typeof__(cu.call))dlsym(library, NAME_OF(call));
#include "driver/cuda.def"
#include "tests/contract/calls.def"
#undef CUDA_REQUIRED
#undef CUDA_OPTIONAL
}

void contract_setup(void)
{
        contract_configure(CONTRACT_OPTIONS);
        calls_load();
}

bool is_root(void)
{
        return geteuid() == 0;
}

int contract_has(const char *call)
{
        int status;
        pid_t pid;

        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
                void *library = library_open();

                _exit(library && !dlsym(library, call) ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        return pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
               WEXITSTATUS(status) == EXIT_SUCCESS;
}

void *contract_symbol(const char *name)
{
        void *library = library_open();

        ck_assert_msg(library, "%s", dlerror());
        return dlsym(library, name);
}

void contract_configure(const char *options)
{
        char text[512];

        (void)snprintf(text, sizeof(text), "%s,dir=%s/%d", options, root, (int)getpid());
        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", text, 1), 0);
        (void)snprintf(text, sizeof(text), "%s/%d", root, (int)getpid());
        /* Open to other users, as a machine is. */
        ck_assert(mkdir(text, 0700) == 0 || errno == EEXIST);
        ck_assert_int_eq(chmod(text, 0777), 0);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        (void)st;
        (void)kind;
        (void)at;
        return remove(path);
}

/* Memory is best kept in memory, if there is room for it. */
static int root_make(void)
{
        struct statvfs fs;
        int has_room = statvfs("/dev/shm", &fs) == 0 && fs.f_bavail * fs.f_frsize >= ROOM_MIN;

        (void)snprintf(root, sizeof(root), "%s/gpumem-contract-XXXXXX",
                       has_room ? "/dev/shm" : "/tmp");
        return mkdtemp(root) && chmod(root, 0755) == 0 ? 0 : -1;
}

int contract_main(Suite *suite)
{
        SRunner *runner = srunner_create(suite);
        int n_failed;

        if (root_make() < 0)
                return EXIT_FAILURE;
        srunner_set_tap(runner, "-");
        srunner_run_all(runner, CK_SILENT);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        (void)nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void contract_init(void)
{
        ck_ok(cu.cuInit(0));
}

CUcontext contract_context(void)
{
        CUcontext context;

        contract_init();
        ck_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
        ck_ok(cu.cuCtxSetCurrent(context));
        return context;
}

static void need_context(void)
{
        CUcontext context = NULL;

        if (cu.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
                (void)contract_context();
}

CUstream contract_stream(unsigned flags)
{
        CUstream stream;

        need_context();
        ck_ok(cu.cuStreamCreate(&stream, flags));
        return stream;
}

CUevent contract_event(unsigned flags)
{
        CUevent event;

        need_context();
        ck_ok(cu.cuEventCreate(&event, flags));
        return event;
}

CUdeviceptr contract_alloc(size_t n_bytes)
{
        CUdeviceptr address;

        need_context();
        ck_ok(cu.cuMemAlloc(&address, n_bytes));
        return address;
}

unsigned char *contract_pinned(size_t n_bytes)
{
        void *bytes;

        need_context();
        ck_ok(cu.cuMemHostAlloc(&bytes, n_bytes, CU_MEMHOSTALLOC_PORTABLE));
        memset(bytes, 0, n_bytes);
        return bytes;
}

CUmemAllocationProp contract_properties(CUmemAllocationHandleType handle_types)
{
        return (CUmemAllocationProp){
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = handle_types,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        };
}

CUmemGenericAllocationHandle contract_create(size_t n_bytes, CUmemAllocationHandleType types)
{
        CUmemAllocationProp properties = contract_properties(types);
        CUmemGenericAllocationHandle handle;

        ck_ok(cu.cuMemCreate(&handle, n_bytes, &properties, 0));
        return handle;
}

int contract_export(CUmemGenericAllocationHandle handle)
{
        int fd = -1;

        ck_ok(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              0));
        ck_assert_int_ge(fd, 0);
        return fd;
}

CUmemGenericAllocationHandle contract_import(int fd)
{
        CUmemGenericAllocationHandle handle;

        ck_ok(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        return handle;
}

CUresult contract_set_access(CUdeviceptr address, size_t n_bytes, CUmemAccess_flags flags)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                  .flags = flags};

        return cu.cuMemSetAccess(address, n_bytes, &access, 1);
}

struct contract_block contract_map(CUmemGenericAllocationHandle handle, size_t n_bytes)
{
        struct contract_block block = {.handle = handle, .n_bytes = n_bytes};

        ck_ok(cu.cuMemAddressReserve(&block.address, n_bytes, 0, 0, 0));
        ck_ok(cu.cuMemMap(block.address, n_bytes, 0, handle, 0));
        ck_ok(contract_set_access(block.address, n_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        return block;
}

void contract_unmap(const struct contract_block *block)
{
        ck_ok(cu.cuMemUnmap(block->address, block->n_bytes));
        ck_ok(cu.cuMemAddressFree(block->address, block->n_bytes));
}

void contract_write(CUdeviceptr address, unsigned char byte)
{
        ck_ok(cu.cuMemcpyHtoD(address, &byte, 1));
}

unsigned char contract_read(CUdeviceptr address)
{
        unsigned char byte = 0xEE;

        ck_ok(cu.cuMemcpyDtoH(&byte, address, 1));
        return byte;
}

size_t contract_free_bytes(void)
{
        size_t n_free, n_total;

        ck_ok(cu.cuMemGetInfo(&n_free, &n_total));
        ck_assert_uint_le(n_free, n_total);
        return n_free;
}

struct contract_peer contract_start(void (*function)(int socket))
{
        struct contract_peer peer;
        int sockets[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        peer.pid = fork();
        ck_assert_int_ge(peer.pid, 0);
        if (peer.pid == 0) {
                (void)close(sockets[0]);
                function(sockets[1]);
                _exit(EXIT_SUCCESS);
        }
        (void)close(sockets[1]);
        peer.socket = sockets[0];
        return peer;
}

void contract_kill(const struct contract_peer *peer)
{
        ck_assert_int_eq(kill(peer->pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(peer->pid, NULL, 0), peer->pid);
        (void)close(peer->socket);
}

void contract_finish(const struct contract_peer *peer)
{
        int status;

        ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS,
                      "the other process failed: status %#x", status);
        (void)close(peer->socket);
}

union control {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
};

void contract_send(int socket, char byte, int fd)
{
        union control control = {0};
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (fd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                                  .cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        }
        ck_assert_int_eq(sendmsg(socket, &message, MSG_NOSIGNAL), 1);
}

int contract_receive(int socket, char byte)
{
        union control control = {0};
        char received = 0;
        struct iovec part = {.iov_base = &received, .iov_len = 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        struct pollfd look = {.fd = socket, .events = POLLIN};
        int fd = -1;

        ck_assert_msg(poll(&look, 1, CONTRACT_PATIENCE_MS) == 1,
                      "the other process sent no '%c' for %d ms", byte, CONTRACT_PATIENCE_MS);
        ck_assert_int_eq(recvmsg(socket, &message, MSG_CMSG_CLOEXEC), 1);
        ck_assert_int_eq(received, byte);
        if (CMSG_FIRSTHDR(&message))
                memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        return fd;
}

static void gate_wait(void *argument)
{
        struct contract_gate *gate = argument;

        __atomic_store_n(&gate->reached, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&gate->opened, __ATOMIC_ACQUIRE))
                (void)usleep(100);
}

void contract_hold(CUstream stream, struct contract_gate *gate)
{
        *gate = (struct contract_gate){0};
        ck_ok(cu.cuLaunchHostFunc(stream, gate_wait, gate));
}

void contract_await(const struct contract_gate *gate)
{
        int n_looks = 0;

        while (!__atomic_load_n(&gate->reached, __ATOMIC_ACQUIRE))
                contract_pause(&n_looks);
}

void contract_open(struct contract_gate *gate)
{
        __atomic_store_n(&gate->opened, 1, __ATOMIC_RELEASE);
}

static void *open_later(void *gate)
{
        (void)usleep(LATER_US);
        contract_open(gate);
        return NULL;
}

void contract_open_later(struct contract_gate *gate)
{
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, open_later, gate), 0);
        ck_assert_int_eq(pthread_detach(thread), 0);
}

void contract_pause(int *n_looks)
{
        ck_assert_msg(++*n_looks < CONTRACT_PATIENCE_MS * 1000 / PAUSE_US,
                      "waited in vain for %d ms", CONTRACT_PATIENCE_MS);
        (void)usleep(PAUSE_US);
}
