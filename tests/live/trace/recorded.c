/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/trace/recorded.h"

#include <check.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "bench/trace.h"
#include "tests/live/support/daemon.h"

struct gpumem_client *recorded_client;
char recorded_path[200], recorded_said[4096];

/* A program's: they end with it. */
#define GPUS_MAX 8
static struct gpu *gpus[GPUS_MAX];
static _Atomic unsigned n_gpus;

void recorded_start(void)
{
        static const char *const options[] = {"--pinned-bytes", "64MiB", "--device-bytes", "256MiB",
                                              NULL};

        daemon_start(&gpumemd, "devices=2,bytes=256MiB", options);
}

void recorded_stop(void)
{
        daemon_stop(&gpumemd);
}

void recorded_name(const char *name)
{
        (void)snprintf(recorded_path, sizeof(recorded_path), "%s/%s", gpumemd.place, name);
}

void recorded_run(void (*program)(void), const char *trace)
{
        char errors[200];
        int status, fd;
        ssize_t n;
        pid_t pid;

        (void)snprintf(errors, sizeof(errors), "%s/stderr", gpumemd.place);
        fd = open(errors, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        (void)fflush(NULL);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                MUST(dup2(fd, STDERR_FILENO) >= 0);
                MUST(setenv("GPUMEM_TRACE", trace, 1) == 0);
                program();
                exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        n = pread(fd, recorded_said, sizeof(recorded_said) - 1, 0);
        ck_assert_int_ge(n, 0);
        recorded_said[n] = '\0';
        (void)close(fd);
        (void)unlink(errors);
        ck_assert_msg(status == 0, "status %d: %s", status, recorded_said);
}

struct sums recorded_sums(void)
{
        struct sums sums = {.n_allocated = 0};
        struct trace trace;
        uint64_t *n_bytes;

        ck_assert_int_eq(trace_read(recorded_path, &trace), 0);
        n_bytes = calloc(trace.n_ids + 1, sizeof(*n_bytes));
        ck_assert_ptr_nonnull(n_bytes);
        for (size_t i = 0; i < trace.n_events; i++) {
                const struct trace_event *event = &trace.events[i];

                if (event->kind == TRACE_ALLOC) {
                        ck_assert_uint_eq(event->id, sums.n_allocated);
                        ck_assert_uint_gt(event->n_bytes, 0);
                        n_bytes[event->id] = event->n_bytes;
                        sums.n_allocated++;
                        sums.n_live_bytes += event->n_bytes;
                        if (event->stream >= sums.n_streams)
                                sums.n_streams = event->stream + 1;
                } else {
                        ck_assert_uint_gt(n_bytes[event->id], 0);
                        sums.n_live_bytes -= n_bytes[event->id];
                        n_bytes[event->id] = 0;
                        sums.n_freed++;
                }
        }
        free(n_bytes);
        trace_deinit(&trace);
        (void)unlink(recorded_path);
        return sums;
}

void recorded_connect(void)
{
        MUST(gpumem_connect(NULL, &recorded_client) == 0);
}

struct gpumem_request recorded_request(uint64_t n_bytes, struct gpu *gpu)
{
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = GPUMEM_NEAREST,
                                       .stream = gpu_stream(gpu),
                                       .n_bytes = n_bytes};
}

void *recorded_alloc(struct gpu *gpu, uint64_t n_bytes)
{
        struct gpumem_request request = recorded_request(n_bytes, gpu);
        void *pointer;

        MUST(gpumem_alloc(recorded_client, &request, &pointer) == 0);
        return pointer;
}

struct gpu *recorded_gpu(void)
{
        struct gpu **gpu = &gpus[atomic_fetch_add(&n_gpus, 1)];

        MUST(gpu < gpus + GPUS_MAX);
        MUST(gpu_new(0, gpu) == 0);
        MUST(gpu_use(*gpu) == 0);
        return *gpu;
}

void recorded_hurry(void)
{
        struct gpu *gpu = recorded_gpu();
        void *kept;

        recorded_connect();
        kept = recorded_alloc(gpu, 1 * MIB);
        for (unsigned i = 1; i < HURRY_PAIRS; i++) {
                void *pointer = recorded_alloc(gpu, i % 4096 + 1);

                MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == 0);
        }
        MUST(gpumem_free_sync(recorded_client, kept) == 0);
}
