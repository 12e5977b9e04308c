/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's reports about a device: in statistics, in refusals, and in the daemon's reactions to a device in
 * error. */
#include <sys/socket.h>

#include "driver/vmm.h"
#include "tests/live/support/containers.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define STRANGER 65534
#define DEVICE   (1 * GIB)
#define THEIRS   (512 * MIB)
#define PIECE    (64 * MIB)
#define TOO_MUCH (768 * MIB)

/* Memory of a context on a GPU, and of the driver for a process. */
#define CONTEXT_MAX (1 * GIB)

/* Another process, with memory from the driver and without gpumemd. */
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

static struct eater eater;

/* Start it when start() has found out about the machine, and before this process uses the driver. The
 * process has its memory when this returns. */
static void eater_start(void)
{
        int sockets[2];
        char byte;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        eater.pid = fork();
        ck_assert_int_ge(eater.pid, 0);
        if (eater.pid == 0) {
                (void)close(sockets[0]);
                _exit(eat(sockets[1]));
        }
        (void)close(sockets[1]);
        eater.socket = sockets[0];
        ck_assert_int_eq(read(eater.socket, &byte, 1), 1);
}

static void eater_end(void)
{
        (void)close(eater.socket);
        child_await(eater.pid, 0);
        eater.pid = 0;
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=1GiB,reclaim_ms=50",
                     OPTIONS("--device-bytes", "1GiB"));
        daemon_admit_all(&gpumemd);
}

static void start_alone(void)
{
        start();
        solo_open(geteuid());
}

static void start_without_nvml(void)
{
        solo_start("devices=1,bytes=1GiB",
                   OPTIONS("--nvml-library", "/nonexistent/libnvidia-ml.so.1"));
}

static void start_on_instance(void)
{
        solo_start("devices=1,bytes=1GiB,mig=1", OPTIONS("--device-bytes", "1GiB"));
}

static void end(void)
{
        if (eater.pid)
                eater_end();
        solo_close();
        gpumemd_stop_uncharged();
}

static const struct test_case alone = {"alone", .limit_s = 60, .start = start_alone, .stop = end};
static const struct test_case on_instance = {"on an instance", .limit_s = 60,
                                             .start = start_on_instance, .stop = end};
static const struct test_case without_nvml = {"without NVML", .limit_s = 60,
                                              .start = start_without_nvml, .stop = end};

/* A refusal waits for NVML, but not for long: on a busy machine NVML may know of no process yet, and the
 * refusal then names none. */
static void full_device_must_say(const char *part)
{
        void *pointer;

        for (unsigned ms = 0; ms < AWAIT_MS; ms += 5) {
                struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, TOO_MUCH, &pointer),
                                 GPUMEM_E_DEVICE_FULL);
                ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
                if (strstr(refusal.text, part))
                        return;
                ck_assert_msg(!strstr(refusal.text, "not gpumemd's"), "%s", refusal.text);
                sleep_ms(5);
        }
        must_say(part);
}

TEST(what_others_use_is_a_figure)
{
        uint64_t before, free_before;

        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WORN);
        before = daemon_first_figure(FIGURE_device_others);
        free_before = daemon_first_figure(FIGURE_device_free);
        eater_start();
        daemon_await_first(FIGURE_device_others, before + THEIRS, before + THEIRS + CONTEXT_MAX);
        daemon_await_first(FIGURE_device_free, 0, free_before - THEIRS);
        solo_open(geteuid());
        (void)must_alloc(GPUMEM_DEVICE, PIECE);
        daemon_await_first(FIGURE_device_free, 0, free_before - THEIRS - PIECE);
        /* The daemon's own memory does not count as others'. */
        daemon_await_first(FIGURE_device_others, before + THEIRS, before + THEIRS + CONTEXT_MAX);
        eater_end();
        daemon_await_first(FIGURE_device_others, 0, before + CONTEXT_MAX);
}

TEST(a_full_device_names_who_else_is_there, NEEDS_EMULATOR)
{
        char part[128];

        eater_start();
        solo_open(geteuid());
        (void)snprintf(
                part, sizeof(part),
                "the driver has not enough memory, 512.00 MiB free, 512.00 MiB not gpumemd's: "
                "test_devices (pid %d) 512.00 MiB",
                (int)eater.pid);
        full_device_must_say(part);
}

TEST(a_stranger_is_told_the_sum, NEEDS_ROOT_AND_EMULATOR)
{

        eater_start();
        solo_open(STRANGER);
        full_device_must_say("the driver has not enough memory, 512.00 MiB free, 512.00 MiB not "
                             "gpumemd's. To do");
}

static enum cgroup_tree tree;

static bool has_containers_and_emulator(void)
{
        return is_root() && machine_is_emulated() && containers_find_tree(&tree);
}

/* The same user, and root; a client in a container is told only of processes there. */
TEST(another_container_is_told_the_sum, .to = 2, .can_run = has_containers_and_emulator,
     .needs = "root, the emulated driver, and cgroups that may be written to")
{
        char part[128] = "512.00 MiB free, 512.00 MiB not gpumemd's. To do";

        if (_i)
                container_enter(tree, 0);
        eater_start();
        container_enter(tree, 0);
        solo_open(getuid());
        container_leave(tree);
        if (_i)
                (void)snprintf(part, sizeof(part),
                               "512.00 MiB not gpumemd's: test_devices (pid %d) 512.00 MiB",
                               (int)eater.pid);
        full_device_must_say(part);
        eater_end();
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

TEST(a_device_in_error_makes_no_blocks_until_it_is_well, .in = &alone, .to = ARRAY_SIZE(errors),
     NEEDS_EMULATOR)
{
        void *pointer = must_alloc(GPUMEM_DEVICE, PIECE), *other;

        daemon_nvml(&gpumemd, errors[_i].line);
        daemon_await_first(FIGURE_device, errors[_i].state, errors[_i].state);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 2 * PIECE, &other), GPUMEM_E_DRIVER);
        must_say("the device is in error, NVML says: ");
        must_say(errors[_i].text);
        /* Existing memory stays usable. */
        must_free(pointer);
        daemon_nvml(&gpumemd, "");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        (void)must_alloc(GPUMEM_DEVICE, 2 * PIECE);
}

TEST(a_worn_device_goes_on, .in = &alone, NEEDS_EMULATOR)
{
        daemon_nvml(&gpumemd, "remapped=0:1\nuncorrected=0:3\nmig=0:1\nnonsense\n");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WORN, PROTO_DEVICE_WORN);
        daemon_await_first(FIGURE_device_uncorrected, 3, 3);
        daemon_await_first(FIGURE_device_mig, 1, 1);
        (void)must_alloc(GPUMEM_DEVICE, PIECE);
}

TEST(an_instance_has_its_own_memory_and_its_gpus_errors, .in = &on_instance, NEEDS_EMULATOR)
{
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        daemon_await_first(FIGURE_device_mig, 1, 1);
        ck_assert_uint_le(daemon_first_figure(FIGURE_device_free), GIB);
        daemon_nvml(&gpumemd, "recovery=0:1\nxid=0:79\n");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_NEEDS_RESET, PROTO_DEVICE_NEEDS_RESET);
        daemon_await_first(FIGURE_device_last_xid, 79, 79);
}

TEST(errors_are_told_as_they_come, .in = &alone, NEEDS_EMULATOR)
{
        daemon_await_first(FIGURE_device_xids, 0, 0);
        daemon_await_first(FIGURE_device_last_xid, 0, 0);
        daemon_nvml(&gpumemd, "xid=0:79\n");
        daemon_await_first(FIGURE_device_last_xid, 79, 79);
        daemon_nvml(&gpumemd, "xid=0:31\n");
        daemon_await_first(FIGURE_device_last_xid, 31, 31);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_xids), 2);
        /* An error of another device does not matter here. */
        daemon_nvml(&gpumemd, "xid=0:31\nxid=1:48\nuncorrected=0:1\n");
        daemon_await_first(FIGURE_device_uncorrected, 1, 1);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device_xids), 2);
}

TEST(one_that_hangs_stops_nobody, .in = &alone, NEEDS_EMULATOR)
{
        void *pointer;

        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        daemon_nvml(&gpumemd, "hang=0:1\n");
        daemon_fault(&gpumemd, gpumemd.pid, "fail=cuMemCreate:*:2");
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, PIECE, &pointer), GPUMEM_E_DEVICE_FULL);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        (void)must_alloc(GPUMEM_DEVICE, PIECE);
}

TEST(without_nvml_all_else_works, .in = &without_nvml)
{
        static const enum figure unknown[] = {FIGURE_device_free, FIGURE_device_others,
                                              FIGURE_device_mig, FIGURE_device_last_xid};

        (void)must_alloc(GPUMEM_DEVICE, PIECE);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_device), PROTO_DEVICE_UNKNOWN);
        for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++)
                ck_assert_uint_eq(daemon_first_figure(unknown[i]), PROTO_FIGURE_UNKNOWN);
}

TESTS_MAIN("devices", .limit_s = 60, .start = start, .stop = end)
