/* SPDX-License-Identifier: Apache-2.0 */
/* What a gpumemd with pools of CUDA IPC handles refuses: what such blocks cannot do, and everybody but the
 * one user that it serves. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/wire.h"
#include "tests/demo/gpu.h"
#include "tests/live/legacy_world.h"
#include "tests/suite.h"

#define STRANGER 65533

static struct daemon gpumemd;
static struct gpumem_client *client;
static struct gpu *gpus[2];
static unsigned n_gpus;

static void start_for(unsigned uid)
{
        legacy_start(&gpumemd, "devices=2,bytes=512MiB", uid);
        n_gpus = machine_n_devices();
        for (unsigned i = 0; i < n_gpus; i++)
                ck_assert_int_eq(gpu_new((int)i, &gpus[i]), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void start(void)
{
        start_for(geteuid());
}

static void start_for_a_stranger(void)
{
        start_for(STRANGER);
}

static void stop(void)
{
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        for (unsigned i = 0; i < n_gpus; i++)
                gpu_free(gpus[i]);
        daemon_stop(&gpumemd);
}

static const struct test_case others = {"others", .limit_s = 120, .start = start_for_a_stranger,
                                        .stop = stop};

static int try_alloc(uint64_t n_bytes, uint32_t flags)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .place = 0,
                                         .n_bytes = n_bytes,
                                         .flags = flags};
        void *pointer;
        int r = gpumem_alloc(client, &request, &pointer);

        return r ? r : gpumem_free_sync(client, pointer);
}

TEST(it_cannot_be_shared)
{
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(4 * MIB, GPUMEM_SHAREABLE), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(try_alloc(4 * MIB, 0), 0);
}

/* Also of devices that could. */
TEST(another_device_does_not_reach_it, NEEDS_TWO_DEVICES)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_msg(strstr(refusal.text, "CUDA IPC handles"), "%s", refusal.text);
}

TEST(it_needs_a_context_of_its_device)
{
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(4 * MIB, 0), GPUMEM_E_NO_CONTEXT);
        if (n_gpus > 1) {
                ck_assert_int_eq(gpu_use(gpus[1]), 0);
                ck_assert_int_ne(try_alloc(4 * MIB, 0), 0);
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(4 * MIB, 0), 0);
}

static int connect_raw(void)
{
        struct sockaddr_un address;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

static struct frame call(int fd, struct frame *request, enum message_kind kind)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame reply;

        proto_seal(request, kind, 1, 0);
        ck_assert_int_eq(wire_send(fd, request, NULL), 0);
        ck_assert_int_eq(wire_receive(fd, FROM_DAEMON, &reply, &fds, &reason), 0);
        return reply;
}

static struct frame say_hello(int fd, uint64_t features)
{
        struct frame hello = FRAME_NULL;

        hello.hello = (struct message_hello){
                .magic = PROTO_MAGIC, .version = PROTO_VERSION, .features = features};
        return call(fd, &hello, MESSAGE_HELLO);
}

TEST(a_client_that_does_not_know_it_is_told)
{
        struct frame lease = FRAME_NULL, reply;
        int fd = connect_raw();

        ck_assert_uint_eq(say_hello(fd, PROTO_FEATURE_REFUSED).kind, MESSAGE_WELCOME);
        lease.lease.n_bytes = 4 * MIB;
        reply = call(fd, &lease, MESSAGE_LEASE);
        ck_assert_uint_eq(reply.kind, MESSAGE_ERROR);
        ck_assert_int_eq(reply.error.code, GPUMEM_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(reply.error.text, "CUDA IPC"));
        closep(&fd);
}

/* Whoever administers the daemon connects; nobody but the user has memory of it, of any pool. */
TEST(who_is_not_the_user_gets_nothing, .in = &others)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .n_bytes = 4 * MIB};
        void *pointer;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(4 * MIB, 0), GPUMEM_E_DENIED);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DENIED);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
}

/* Started by root only. */
TEST(who_is_neither_user_nor_administrator_is_turned_away, NEEDS_ROOT)
{
        pid_t pid;
        int status;

        daemon_admit_all(&gpumemd);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                struct frame reply;

                if (setresuid(STRANGER, STRANGER, STRANGER))
                        _exit(2);
                reply = say_hello(connect_raw(), PROTO_FEATURES);
                _exit(reply.kind == MESSAGE_ERROR && reply.error.code == GPUMEM_E_DENIED ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
}

TESTS_MAIN("ours", .limit_s = 120, .start = start, .stop = stop)
