/* SPDX-License-Identifier: Apache-2.0 */
/* A client that becomes another program: what was its is closed, and charged until that one ends. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define PATIENCE_MS 20000

static struct daemon gpumemd;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
}

static void stop(void)
{
        daemon_stop_empty(&gpumemd);
}

/* 4 MiB of each kind. */
static bool hold_something(void)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request), .place = GPUMEM_NEAREST, .n_bytes = 4 * MIB};
        struct gpumem_client *client;
        struct gpu *gpu;
        void *device, *pinned;

        if (gpu_new(0, &gpu) || gpu_use(gpu) || gpumem_connect(NULL, &client))
                return false;
        request.kind = GPUMEM_DEVICE;
        request.stream = gpu_stream(gpu);
        if (gpumem_alloc(client, &request, &device))
                return false;
        request.kind = GPUMEM_PINNED;
        return gpumem_alloc(client, &request, &pinned) == 0;
}

struct other {
        pid_t pid;
        int end; /* it ends when this is closed */
};

/* A process that becomes cat, as a client or without ever having been one. */
static struct other start_other(bool (*first)(void))
{
        int end[2];
        pid_t pid;

        ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                if (dup2(end[0], STDIN_FILENO) == STDIN_FILENO && (!first || first()))
                        (void)execlp("cat", "cat", (char *)NULL);
                _exit(1);
        }
        (void)close(end[0]);
        return (struct other){pid, end[1]};
}

static bool is_cat(pid_t pid)
{
        char path[64], name[16] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        (void)!fgets(name, sizeof(name), file);
        (void)fclose(file);
        return strcmp(name, "cat\n") == 0;
}

/* The fds that another program was left. */
static unsigned count_left(const struct other *other)
{
        struct daemon process = {.pid = other->pid};

        for (unsigned ms = 0; ms < PATIENCE_MS && !is_cat(other->pid); ms++)
                sleep_ms(1);
        ck_assert(is_cat(other->pid));
        return daemon_quiet_fds(&process);
}

static void end_other(const struct other *other)
{
        int status = -1;

        (void)close(other->end);
        ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
        ck_assert_int_eq(status, 0);
}

/* That its mappings ended with the program is nothing that the daemon could see. */
TEST(what_an_exec_leaves_is_charged_until_the_process_ends)
{
        struct other plain = start_other(NULL), client = start_other(hold_something);
        unsigned n_plain = count_left(&plain);

        daemon_await(FIGURE_lingering, 8 * MIB);
        ck_assert_uint_eq(count_left(&client), n_plain);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
        end_other(&client);
        daemon_await(FIGURE_charged, 0);
        end_other(&plain);
}

TESTS_MAIN("exec", .limit_s = 60, .start = start, .stop = stop)
