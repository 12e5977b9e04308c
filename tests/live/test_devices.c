/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of a device, as it arrives: in figures, in refusals, and in what the daemon does where a
 * device is in error. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "driver/vmm.h"
#include "tests/live/containers.h"
#include "tests/live/solo.h"
#include "tests/suite.h"

#define STRANGER 65534
#define DEVICE   (1 * GIB)
#define THEIRS   (512 * MIB)
#define PIECE    (64 * MIB)
#define TOO_MUCH (768 * MIB)

#define PATIENCE_MS 20000

/* What a context takes on a GPU, and what the driver makes for a process. */
#define CONTEXT_MAX (1 * GIB)

/* Another process, which has memory from the driver and knows no gpumemd. */
struct eater {
        pid_t pid;
        int socket;
};

static int eat(int socket)
{
        char reason[CUDA_REASON_MAX], byte = 'e';
        struct cuda cuda;
        uint64_t handle;
        int fd;

        if (cuda_load(NULL, &cuda, reason) || vmm_create(&cuda, 0, THEIRS, &handle, &fd) ||
            write(socket, &byte, 1) != 1)
                return EXIT_FAILURE;
        (void)read(socket, &byte, 1);
        return EXIT_SUCCESS;
}

/* To be started when the machine is known, which start() makes known, and before this process uses the
 * driver. It has its memory when this returns. */
static void eater_start(struct eater *eater)
{
        int sockets[2];
        char byte;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        eater->pid = fork();
        ck_assert_int_ge(eater->pid, 0);
        if (eater->pid == 0) {
                (void)close(sockets[0]);
                _exit(eat(sockets[1]));
        }
        (void)close(sockets[1]);
        eater->socket = sockets[0];
        ck_assert_int_eq(read(eater->socket, &byte, 1), 1);
}

static void eater_end(struct eater *eater)
{
        int status;

        (void)close(eater->socket);
        ck_assert_int_eq(waitpid(eater->pid, &status, 0), eater->pid);
        ck_assert_int_eq(status, 0);
}

static void start(const char *nvml_library)
{
        const char *const options[] = {"--device-bytes", "1GiB",
                                       nvml_library ? "--nvml-library" : NULL, nvml_library, NULL};

        daemon_start(&gpumemd, "devices=1,bytes=1GiB,reclaim_ms=50", options);
        daemon_admit_all(&gpumemd);
}

static void end(void)
{
        solo_close();
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

static struct gpumem_refusal refused(void)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        return refusal;
}

/* A refusal waits for NVML, but not for long: on a busy machine it may know of nobody yet, and says nothing of
 * others then. */
static void full_device_must_say(const char *part)
{
        void *pointer;

        for (unsigned ms = 0; ms < PATIENCE_MS; ms += 5) {
                struct gpumem_refusal refusal;

                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, TOO_MUCH, &pointer),
                                 GPUMEM_E_DEVICE_FULL);
                refusal = refused();
                if (strstr(refusal.text, part))
                        return;
                ck_assert_msg(!strstr(refusal.text, "not gpumemd's"), "%s", refusal.text);
                sleep_ms(5);
        }
        must_say(part);
}

TEST(what_others_use_is_a_figure)
{
        struct eater eater;
        uint64_t before, free_before;
        void *pointer;

        start(NULL);
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WORN);
        before = daemon_first_figure(FIGURE_device_others);
        free_before = daemon_first_figure(FIGURE_device_free);
        eater_start(&eater);
        daemon_await_first(FIGURE_device_others, before + THEIRS, before + THEIRS + CONTEXT_MAX);
        daemon_await_first(FIGURE_device_free, 0, free_before - THEIRS);
        solo_open(geteuid());
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), 0);
        daemon_await_first(FIGURE_device_free, 0, free_before - THEIRS - PIECE);
        /* What the daemon has made is none of others'. */
        daemon_await_first(FIGURE_device_others, before + THEIRS, before + THEIRS + CONTEXT_MAX);
        eater_end(&eater);
        daemon_await_first(FIGURE_device_others, 0, before + CONTEXT_MAX);
        end();
}

TEST(a_full_device_names_who_else_is_there, NEEDS_EMULATOR)
{
        struct eater eater;
        char part[128];

        start(NULL);
        eater_start(&eater);
        solo_open(geteuid());
        (void)snprintf(part, sizeof(part),
                       "the driver has no memory left, 512.00 MiB free, 512.00 MiB not gpumemd's: "
                       "test_devices (pid %d) 512.00 MiB",
                       (int)eater.pid);
        full_device_must_say(part);
        eater_end(&eater);
        end();
}

TEST(a_stranger_is_told_the_sum, NEEDS_ROOT_AND_EMULATOR)
{
        struct eater eater;

        start(NULL);
        eater_start(&eater);
        solo_open(STRANGER);
        full_device_must_say(
                "the driver has no memory left, 512.00 MiB free, 512.00 MiB not gpumemd's. To do");
        eater_end(&eater);
        end();
}

static enum cgroup_tree tree;

static bool has_containers_and_emulator(void)
{
        return is_root() && machine_is_emulated() && containers_find_tree(&tree);
}

/* The same user, and root at that; in a container he knows what is in there. */
TEST(another_container_is_told_the_sum, .to = 2, .can_run = has_containers_and_emulator,
     .needs = "root, the emulated driver, and cgroups that may be written to")
{
        struct eater eater;
        char part[128] = "512.00 MiB free, 512.00 MiB not gpumemd's. To do";

        start(NULL);
        if (_i)
                container_enter(tree, 0);
        eater_start(&eater);
        container_enter(tree, 0);
        solo_open(getuid());
        container_leave(tree);
        if (_i)
                (void)snprintf(part, sizeof(part),
                               "512.00 MiB not gpumemd's: test_devices (pid %d) 512.00 MiB",
                               (int)eater.pid);
        full_device_must_say(part);
        eater_end(&eater);
        end();
        containers_remove(tree);
}

static const struct {
        const char *line;
        uint64_t state;
        const char *text;
} errors[] = {
        {"recovery=0:1\n", PROTO_DEVICE_NEEDS_RESET, "needs a reset"},
        {"recovery=0:2\n", PROTO_DEVICE_NEEDS_REBOOT, "needs a reboot"},
        {"result=0:15\n", PROTO_DEVICE_LOST, "lost"},
        {"result=0:16\n", PROTO_DEVICE_NEEDS_RESET, "needs a reset"},
};

TEST(a_device_in_error_makes_no_blocks_until_it_is_well, .to = ARRAY_SIZE(errors), NEEDS_EMULATOR)
{
        void *pointer, *other;

        start(NULL);
        solo_open(geteuid());
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), 0);
        daemon_nvml(&gpumemd, errors[_i].line);
        daemon_await_first(FIGURE_device, errors[_i].state, errors[_i].state);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 2 * PIECE, &other), GPUMEM_E_DRIVER);
        must_say("the device is in error, NVML says: ");
        must_say(errors[_i].text);
        /* What there is stays of use. */
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
        daemon_nvml(&gpumemd, "");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 2 * PIECE, &other), 0);
        end();
}

TEST(a_worn_device_goes_on, NEEDS_EMULATOR)
{
        void *pointer;

        start(NULL);
        solo_open(geteuid());
        daemon_nvml(&gpumemd, "remapped=0:1\nuncorrected=0:3\nmig=0:1\nnonsense\n");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WORN, PROTO_DEVICE_WORN);
        daemon_await_first(FIGURE_device_uncorrected, 3, 3);
        daemon_await_first(FIGURE_device_mig, 1, 1);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), 0);
        end();
}

TEST(errors_are_told_as_they_come, NEEDS_EMULATOR)
{
        start(NULL);
        solo_open(geteuid());
        daemon_await_first(FIGURE_device_xids, 0, 0);
        daemon_await_first(FIGURE_device_last_xid, 0, 0);
        daemon_nvml(&gpumemd, "xid=0:79\n");
        daemon_await_first(FIGURE_device_last_xid, 79, 79);
        daemon_nvml(&gpumemd, "xid=0:31\n");
        daemon_await_first(FIGURE_device_last_xid, 31, 31);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_xids), 2);
        /* That of another device is nothing here. */
        daemon_nvml(&gpumemd, "xid=0:31\nxid=1:48\nuncorrected=0:1\n");
        daemon_await_first(FIGURE_device_uncorrected, 1, 1);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_xids), 2);
        end();
}

TEST(one_that_hangs_stops_nobody, NEEDS_EMULATOR)
{
        void *pointer;

        start(NULL);
        solo_open(geteuid());
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        daemon_nvml(&gpumemd, "hang=0:1\n");
        daemon_fault(&gpumemd, gpumemd.pid, "fail=cuMemCreate:*:2");
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), GPUMEM_E_DEVICE_FULL);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), 0);
        end();
}

TEST(without_nvml_all_else_works)
{
        void *pointer;

        start("/nonexistent/libnvidia-ml.so.1");
        solo_open(geteuid());
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), 0);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device), PROTO_DEVICE_UNKNOWN);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_free), PROTO_FIGURE_UNKNOWN);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_others), PROTO_FIGURE_UNKNOWN);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_mig), PROTO_FIGURE_UNKNOWN);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_last_xid), PROTO_FIGURE_UNKNOWN);
        end();
}

TESTS_MAIN("devices", .limit_s = 60)
