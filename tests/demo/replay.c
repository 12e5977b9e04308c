/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/demo/replay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/demo/pattern.h"

/* How long an allocation waits for memory that the other process holds. */
#define WAIT_MS 20000

#define MEETING_POLL_US 2000
#define MEETING_POLLS   30000

struct allocation {
        unsigned char *pointer;
        uint64_t n_bytes;
        uint64_t tag;
        struct gpu *gpu;
        enum gpumem_kind kind;
};

struct replay {
        const struct replay_options *options;
        struct gpumem_client *client;
        struct gpu *gpus[REPLAY_DEVICES_MAX];
        struct allocation *allocations; /* by the trace's ids */
        uint64_t n_live_bytes;
        struct replay_result result;
};

/* Device memory is written by copies through the driver, pinned memory by the CPU. */
static int write_cell(const struct allocation *allocation, struct cell cell)
{
        void *staged;
        int r;

        if (allocation->kind == GPUMEM_PINNED) {
                pattern_fill(allocation->tag, cell, allocation->pointer + cell.offset);
                return 0;
        }
        r = gpu_stage(allocation->gpu, cell.n_bytes, &staged);
        if (r)
                return r;
        pattern_fill(allocation->tag, cell, staged);
        return gpu_copy_to_device(allocation->gpu, allocation->pointer + cell.offset, staged,
                                  cell.n_bytes);
}

static int write_pattern(const struct allocation *allocation)
{
        int r = 0;

        for (uint64_t i = 0; i < pattern_n_cells(allocation->n_bytes) && !r; i++)
                r = write_cell(allocation, pattern_cell(allocation->n_bytes, i));
        return r;
}

static void compare(struct replay *replay, const struct allocation *allocation, struct cell cell,
                    const unsigned char *bytes)
{
        replay->result.n_checked_bytes += cell.n_bytes;
        replay->result.n_wrong_bytes += pattern_count_wrong(allocation->tag, cell, bytes);
}

/* Copies cells `from` to `from + n - 1` together, and waits once. */
static int check_device_cells(struct replay *replay, const struct allocation *allocation,
                              uint64_t from, unsigned n)
{
        void *staged[GPU_CELLS_MAX];
        int r = gpu_restart(allocation->gpu);

        for (unsigned i = 0; i < n && !r; i++) {
                struct cell cell = pattern_cell(allocation->n_bytes, from + i);

                r = gpu_stage(allocation->gpu, cell.n_bytes, &staged[i]);
                if (!r)
                        r = gpu_copy_to_host(allocation->gpu, staged[i],
                                             allocation->pointer + cell.offset, cell.n_bytes);
        }
        if (!r)
                r = gpu_synchronize(allocation->gpu);
        for (unsigned i = 0; i < n && !r; i++)
                compare(replay, allocation, pattern_cell(allocation->n_bytes, from + i), staged[i]);
        return r;
}

static int check_pattern(struct replay *replay, const struct allocation *allocation)
{
        uint64_t n_cells = pattern_n_cells(allocation->n_bytes);
        int r = 0;

        if (allocation->kind == GPUMEM_PINNED) {
                for (uint64_t i = 0; i < n_cells; i++) {
                        struct cell cell = pattern_cell(allocation->n_bytes, i);

                        compare(replay, allocation, cell, allocation->pointer + cell.offset);
                }
                return 0;
        }
        for (uint64_t from = 0; from < n_cells && !r; from += GPU_CELLS_MAX) {
                uint64_t n = n_cells - from;

                r = check_device_cells(replay, allocation, from,
                                       (unsigned)(n < GPU_CELLS_MAX ? n : GPU_CELLS_MAX));
        }
        return r;
}

static int fail(const struct replay *replay, const char *what, uint64_t n_bytes, int result)
{
        (void)fprintf(stderr, "%s: %s of %" PRIu64 " bytes: %s\n", replay->options->name, what,
                      n_bytes, gpumem_strerror(result));
        return result < 0 ? result : -EIO;
}

/* Programs allocate in patterns, so ids are hashed: each device gets its share of each size. */
static unsigned device_of(uint32_t id, unsigned n_devices)
{
        return (id * UINT32_C(2654435761) >> 16) % n_devices;
}

static int replay_alloc(struct replay *replay, const struct trace_event *event)
{
        const struct replay_options *options = replay->options;
        unsigned device = device_of(event->id, options->n_devices);
        unsigned every = options->pinned_every;
        struct allocation *allocation = &replay->allocations[event->id];
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = every && replay->result.n_allocations % every == every - 1 ? GPUMEM_PINNED
                                                                                   : GPUMEM_DEVICE,
                .n_bytes = event->n_bytes,
                .wait_ms = WAIT_MS,
                .flags = GPUMEM_AT_PLACE,
        };
        void *pointer;
        int r = gpu_use(replay->gpus[device]);

        if (r)
                return r;
        request.stream = gpu_stream(replay->gpus[device]);
        request.place = request.kind == GPUMEM_PINNED ? GPUMEM_NEAREST : (int32_t)device;
        r = gpumem_alloc(replay->client, &request, &pointer);
        if (r)
                return fail(replay, "allocation", event->n_bytes, r);
        *allocation = (struct allocation){
                .pointer = pointer,
                .n_bytes = event->n_bytes,
                .tag = (uint64_t)getpid() << 32 | event->id,
                .gpu = replay->gpus[device],
                .kind = request.kind,
        };
        replay->result.n_allocations++;
        replay->result.n_pinned += request.kind == GPUMEM_PINNED;
        replay->n_live_bytes += event->n_bytes;
        if (replay->n_live_bytes > replay->result.n_live_peak_bytes)
                replay->result.n_live_peak_bytes = replay->n_live_bytes;
        return write_pattern(allocation);
}

static int replay_free(struct replay *replay, uint32_t id)
{
        struct allocation *allocation = &replay->allocations[id];
        int r;

        if (!allocation->pointer) {
                (void)fprintf(stderr, "%s: the trace frees %" PRIu32 ", which is not allocated\n",
                              replay->options->name, id);
                return -EINVAL;
        }
        r = gpu_use(allocation->gpu);
        if (!r)
                r = check_pattern(replay, allocation);
        if (r)
                return r;
        r = gpumem_free(replay->client, allocation->pointer, gpu_stream(allocation->gpu));
        if (r)
                return fail(replay, "free", allocation->n_bytes, r);
        replay->n_live_bytes -= allocation->n_bytes;
        allocation->pointer = NULL;
        return 0;
}

/* Reports that this process is half-way, and waits until it may go on. */
static int meet(const struct replay *replay)
{
        CLEANUP(closep)
        int fd = -1;
        char path[PATH_MAX];

        (void)snprintf(path, sizeof(path), "%s.%s", replay->options->meeting,
                       replay->options->name);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_errno();
        (void)snprintf(path, sizeof(path), "%s.go", replay->options->meeting);
        for (unsigned i = 0; i < MEETING_POLLS; i++) {
                if (access(path, F_OK) == 0)
                        return 0;
                (void)usleep(MEETING_POLL_US);
        }
        (void)fprintf(stderr, "%s: no process made %s in time\n", replay->options->name, path);
        return -ETIMEDOUT;
}

static int replay_events(struct replay *replay, const struct trace *trace)
{
        int r = 0;

        for (size_t i = 0; i < trace->n_events && !r; i++) {
                if (i == trace->n_events / 2 && replay->options->meeting)
                        r = meet(replay);
                if (!r)
                        r = trace->events[i].kind == TRACE_ALLOC
                                    ? replay_alloc(replay, &trace->events[i])
                                    : replay_free(replay, trace->events[i].id);
        }
        /* Allocations that the trace does not free are checked and freed, too. */
        for (uint32_t id = 0; id < trace->n_ids && !r; id++) {
                if (replay->allocations[id].pointer)
                        r = replay_free(replay, id);
        }
        return r;
}

static int add_stats(struct replay *replay, enum gpumem_kind kind, int32_t place)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = gpumem_get_stats(replay->client, kind, place, &stats);

        if (r)
                return fail(replay, "statistics", 0, r);
        replay->result.n_hits += stats.n_hits;
        replay->result.n_misses += stats.n_misses;
        if (stats.n_requested_bytes || stats.n_allocated_bytes || stats.n_reserved_bytes) {
                (void)fprintf(stderr, "%s: everything was freed, yet bytes are held\n",
                              replay->options->name);
                return -EIO;
        }
        return 0;
}

static int flush(struct replay *replay)
{
        int r = gpumem_flush(replay->client, NULL);

        return r ? fail(replay, "flush", 0, r) : 0;
}

static int open_replay(struct replay *replay, const struct trace *trace)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .program = replay->options->name};
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        int r = 0;

        replay->allocations = calloc(trace->n_ids, sizeof(*replay->allocations));
        if (!replay->allocations)
                return -ENOMEM;
        for (unsigned i = 0; i < replay->options->n_devices && !r; i++)
                r = gpu_new((int)i, &replay->gpus[i]);
        if (r)
                return r;
        r = gpumem_connect(&options, &replay->client);
        if (r && gpumem_last_refusal(NULL, &refusal) == 0)
                (void)fprintf(stderr, "%s: no connection: %s\n", replay->options->name,
                              refusal.text);
        return r > 0 ? -EIO : r;
}

static void close_replay(struct replay *replay)
{
        gpumem_disconnect(replay->client);
        for (unsigned i = 0; i < REPLAY_DEVICES_MAX; i++)
                gpu_free(replay->gpus[i]);
        free(replay->allocations);
}

int replay_run(const struct trace *trace, const struct replay_options *options,
               struct replay_result *ret_result)
{
        struct replay replay = {.options = options};
        int r = open_replay(&replay, trace);

        if (!r)
                r = replay_events(&replay, trace);
        /* The library keeps freed memory for later allocations, and none follows. */
        if (!r)
                r = flush(&replay);
        for (unsigned i = 0; i < options->n_devices && !r; i++)
                r = add_stats(&replay, GPUMEM_DEVICE, (int32_t)i);
        if (!r && options->pinned_every)
                r = add_stats(&replay, GPUMEM_PINNED, GPUMEM_NEAREST);
        close_replay(&replay);
        if (r)
                return r;
        *ret_result = replay.result;
        return 0;
}
