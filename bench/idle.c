/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of taking another process's idle memory.
 *
 * `idle_stopped`: a process that SIGSTOP has stopped holds and maps an idle block, which is leased and
 * mapped here. It is compared with the same block from the daemon's cache. Blocks have 2 MiB, with `_large`
 * 64 MiB. The daemon and this process share one CPU, so that their costs add up. `idle_latency` is in
 * latency.c. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "bench/apart.h"
#include "bench/bare.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/latency.h"
#include "bench/pin.h"
#include "bench/stopped.h"
#include "bench/target.h"
#include "driver/vmm.h"

#define N_BLOCKS 32
#define BOUND    1.5

struct idle {
        struct stopped stopped;
        struct target target;
        struct bare bare;
        uint64_t address; /* reserved for all blocks */
        uint64_t n_block_bytes;
        uint64_t leases[N_BLOCKS];
};

static int map_one(struct idle *idle, unsigned i)
{
        const struct cuda *cuda = &idle->target.cuda;
        struct message_leased lease;
        uint64_t handle;
        int fd, r;

        r = bare_lease(&idle->bare, idle->n_block_bytes, &lease, &fd);
        if (r)
                return r;
        idle->leases[i] = lease.lease;
        r = vmm_import(cuda, fd, &handle);
        (void)close(fd);
        if (r)
                return r;
        r = vmm_map(cuda, idle->target.device, idle->address + i * idle->n_block_bytes,
                    idle->n_block_bytes, handle);
        (void)vmm_release(cuda, handle);
        return r;
}

static int unmap_all(struct idle *idle)
{
        int r = 0;

        for (unsigned i = 0; i < N_BLOCKS && !r; i++) {
                r = vmm_unmap(&idle->target.cuda, idle->address + i * idle->n_block_bytes,
                              idle->n_block_bytes);
                if (!r)
                        r = bare_return(&idle->bare, idle->leases[i]);
        }
        return r ? r : bare_settle(&idle->bare);
}

/* Mean time for a block. The blocks are in the daemon's cache afterwards, wherever they came from. */
static int time_blocks(struct idle *idle, struct samples *samples)
{
        uint64_t start_ns = clock_now_ns();
        int r = 0;

        for (unsigned i = 0; i < N_BLOCKS && !r; i++)
                r = map_one(idle, i);
        samples_add(samples, (double)(clock_now_ns() - start_ns) / N_BLOCKS);
        return r ? r : unmap_all(idle);
}

static int take_turn(struct idle *idle, struct samples *stopped, struct samples *cached)
{
        int r = stopped_hold(&idle->stopped, N_BLOCKS, idle->n_block_bytes);

        if (!r)
                r = time_blocks(idle, stopped);
        if (!r)
                r = stopped_let_go(&idle->stopped);
        return r ? r : time_blocks(idle, cached);
}

static int measure_size(struct idle *idle, const struct options *options, struct row row,
                        struct rows *rows)
{
        struct samples stopped = {.n = 0}, cached = {.n = 0};
        const struct cuda *cuda = &idle->target.cuda;
        int r = vmm_reserve(cuda, N_BLOCKS * idle->n_block_bytes, &idle->address);

        if (r)
                return r;
        /* Blocks that earlier tests left in the cache would be leased instead of idle ones. */
        r = bare_clear(&idle->bare);
        for (unsigned i = 0; i < count_repetitions(options) && !r; i++)
                r = take_turn(idle, &stopped, &cached);
        (void)vmm_unreserve(cuda, idle->address, N_BLOCKS * idle->n_block_bytes);
        row.value = samples_median(&stopped);
        row.baseline = samples_median(&cached);
        return r ? r : rows_add(rows, &row);
}

static int pin_both(const struct idle *idle)
{
        int cpu, r;

        r = pin_choose(&cpu);
        if (!r)
                r = pin_to_cpu(idle->bare.daemon, cpu);
        return r ? r : pin_to_cpu(getpid(), cpu);
}

static int open_all(const struct options *options, struct idle *idle)
{
        /* Forks, so it must run before there are threads. */
        int r = target_check("a process to be stopped", stopped_init(options, &idle->stopped));

        if (!r)
                r = target_init(options, &idle->target);
        if (!r)
                r = target_check("no link to gpumemd", bare_init(options, &idle->bare));
        return r ? r : target_check("both on one CPU", pin_both(idle));
}

static void close_all(struct idle *idle)
{
        if (idle->bare.daemon)
                (void)pin_to_none(idle->bare.daemon);
        (void)pin_to_none(getpid());
        bare_deinit(&idle->bare);
        target_deinit(&idle->target);
        stopped_deinit(&idle->stopped);
}

static int measure_stopped(const struct options *options, struct rows *rows)
{
        static const struct row row = {
                .name = "idle_stopped", .unit = "ns", .limit = ROW_AT_MOST, .bound = BOUND};
        static const struct row large = {
                .name = "idle_stopped_large", .unit = "ns", .limit = ROW_AT_MOST, .bound = BOUND};
        struct idle idle = {.stopped = STOPPED_NULL, .target = TARGET_NULL, .bare = BARE_NULL};
        int r = open_all(options, &idle);

        idle.n_block_bytes = 2 * MIB;
        if (!r)
                r = measure_size(&idle, options, row, rows);
        idle.n_block_bytes = 64 * MIB;
        if (!r)
                r = measure_size(&idle, options, large, rows);
        close_all(&idle);
        return target_check("idle_stopped", r);
}

int command_idle(const struct options *options, struct rows *rows)
{
        int r = apart_measure(measure_stopped, options, rows);

        return r ? r : apart_measure(latency_measure, options, rows);
}
