/* SPDX-License-Identifier: Apache-2.0 */
/* A lease and its return, compared with the same messages to a bare server (bench/echo.h); all processes on one CPU.
 *
 * `lease` is a cached block, requested over the library's link without a driver call. `lease_known` is a
 * block that the client still maps: no fd, but one more message, which ends the earlier lease; it is
 * compared with `lease`. `lease_shareable` uses the public functions and shareable allocations, which
 * always have a block of their own. That block is created and mapped each time, so the driver's calls are
 * measured separately in this process. The row shows them, and the rest without them. */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "bench/bare.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/echo.h"
#include "bench/pin.h"
#include "bench/target.h"
#include "driver/vmm.h"

#define BLOCK_BYTES (2 * MIB)
#define N_STEPS     64
#define BOUND       1.25

struct lease {
        struct echo echo;
        struct target target;
        struct bare bare;
        uint64_t known;   /* a lease that was returned and not unmapped; 0: none */
        uint64_t address; /* reserved, for a block from the driver */
};

#define LEASE_NULL ((struct lease){.echo = ECHO_NULL, .target = TARGET_NULL, .bare = BARE_NULL})

static int echo_steps(void *argument, unsigned n_steps)
{
        struct lease *lease = argument;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = echo_lease(&lease->echo);
        return r;
}

static int lease_once(struct lease *lease)
{
        struct message_leased leased;
        int fd, r;

        r = bare_lease(&lease->bare, BLOCK_BYTES, &leased, &fd);
        if (r)
                return r;
        (void)close(fd);
        return bare_return(&lease->bare, leased.lease);
}

static int say_unmapped(struct lease *lease, uint64_t which)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = which;
        return link_send(lease->bare.link, &frame, MESSAGE_UNMAPPED);
}

static int return_mapped(struct lease *lease, uint64_t which)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = which;
        lease->known = which;
        return link_send(lease->bare.link, &frame, MESSAGE_RETURN);
}

static int begin_known(struct lease *lease)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = BLOCK_BYTES;
        request.lease.pool = lease->bare.pool;
        r = link_call(lease->bare.link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        return r ? r : return_mapped(lease, reply.leased.lease);
}

static int known_once(struct lease *lease)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = BLOCK_BYTES;
        request.lease.pool = lease->bare.pool;
        request.lease.flags = PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN;
        r = link_call(lease->bare.link, &request, MESSAGE_LEASE, MESSAGE_KNOWN, &reply, &fds);
        if (!r)
                r = say_unmapped(lease, lease->known);
        return r ? r : return_mapped(lease, reply.known.lease);
}

/* Without `known`, any lease could take the block that the client maps. */
static int known_steps(void *argument, unsigned n_steps)
{
        struct lease *lease = argument;
        int r = begin_known(lease);

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = known_once(lease);
        if (!r)
                r = say_unmapped(lease, lease->known);
        return target_check("lease_known", r);
}

static int lease_steps(void *argument, unsigned n_steps)
{
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = lease_once(argument);
        return target_check("lease", r);
}

static int shareable_steps(void *argument, unsigned n_steps)
{
        struct lease *lease = argument;
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = lease->target.streams[0],
                                         .n_bytes = BLOCK_BYTES,
                                         .flags = GPUMEM_SHAREABLE};
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = gpumem_alloc(lease->target.client, &request, &pointer);
                if (!r)
                        r = target_free(&lease->target, 0, pointer);
        }
        return target_check("lease_shareable", r);
}

/* The driver calls in the life of one shareable allocation, those of gpumemd and of the library. */
static int driver_once(struct lease *lease)
{
        const struct cuda *cuda = &lease->target.cuda;
        uint64_t made, imported;
        int fd, r;

        r = vmm_create(cuda, lease->target.device, BLOCK_BYTES, &made, &fd);
        if (r)
                return r;
        r = vmm_import(cuda, fd, &imported);
        (void)close(fd);
        if (!r) {
                r = vmm_map(cuda, lease->target.device, lease->address, BLOCK_BYTES, imported);
                (void)vmm_release(cuda, imported);
        }
        if (!r)
                r = CUDA_CALL(cuda, cuStreamSynchronize, lease->target.streams[0]);
        if (!r)
                r = vmm_unmap(cuda, lease->address, BLOCK_BYTES);
        (void)vmm_release(cuda, made);
        return r;
}

static int driver_steps(void *argument, unsigned n_steps)
{
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = driver_once(argument);
        return target_check_cuda(r);
}

enum { ECHOES, LEASE, KNOWN, SHAREABLE, DRIVER, N_SIDES };

static timed_steps *const sides[N_SIDES] = {
        [ECHOES] = echo_steps,         [LEASE] = lease_steps,   [KNOWN] = known_steps,
        [SHAREABLE] = shareable_steps, [DRIVER] = driver_steps,
};

static int add_rows(struct samples samples[N_SIDES], struct rows *rows)
{
        double echoes = samples_median(&samples[ECHOES]), driver = samples_median(&samples[DRIVER]);
        double shareable = samples_median(&samples[SHAREABLE]),
               leased = samples_median(&samples[LEASE]);
        const struct row added[] = {
                {"lease", leased, "ns", echoes, BOUND, ROW_AT_MOST, ""},
                {"lease_known", samples_median(&samples[KNOWN]), "ns", leased, 0, ROW_NO_BOUND, ""},
                {"lease_shareable", shareable, "ns", echoes, 0, ROW_NO_BOUND, ""},
                {"lease_shareable_driver", driver, "ns", echoes, 0, ROW_NO_BOUND, ""},
                {"lease_shareable_rest", shareable - driver, "ns", echoes, 0, ROW_NO_BOUND, ""},
        };
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(added) && !r; i++)
                r = rows_add(rows, &added[i]);
        return r;
}

/* A shareable allocation that hit would not have been a lease. */
static int check_leases(struct lease *lease)
{
        struct gpumem_stats stats;
        int r = target_stats(&lease->target, &stats);

        if (r || !stats.n_hits)
                return r;
        (void)fprintf(stderr, "gpumem-bench: shareable allocations were served without a lease\n");
        return -ENOTRECOVERABLE;
}

static int measure(struct lease *lease, const struct options *options, struct rows *rows)
{
        struct samples samples[N_SIDES] = {{.n = 0}};
        int r = 0;

        for (unsigned i = 0; i < count_repetitions(options) && !r; i++) {
                for (unsigned side = 0; side < N_SIDES && !r; side++) {
                        double ns;

                        r = time_repetition(sides[side], lease, N_STEPS, &ns);
                        if (!r)
                                samples_add(&samples[side], ns);
                }
        }
        if (!r)
                r = check_leases(lease);
        return r ? r : add_rows(samples, rows);
}

static int pin_all(const struct lease *lease)
{
        int cpu, r;

        r = pin_choose(&cpu);
        if (!r)
                r = pin_to_cpu(lease->bare.daemon, cpu);
        if (!r)
                r = pin_to_cpu(lease->echo.pid, cpu);
        return r ? r : pin_to_cpu(getpid(), cpu);
}

static int open_all(const struct options *options, struct lease *lease)
{
        int r;

        /* Forks, so it must run before there are threads. */
        r = target_check("an echo to compare with", echo_init(&lease->echo));
        if (!r)
                r = target_init(options, &lease->target);
        if (!r)
                r = target_check_cuda(
                        vmm_reserve(&lease->target.cuda, BLOCK_BYTES, &lease->address));
        if (!r)
                r = target_check("no link to gpumemd", bare_init(options, &lease->bare));
        return r ? r : target_check("all on one CPU", pin_all(lease));
}

static void close_all(struct lease *lease)
{
        if (lease->bare.daemon)
                (void)pin_to_none(lease->bare.daemon);
        (void)pin_to_none(getpid());
        bare_deinit(&lease->bare);
        if (lease->address)
                (void)vmm_unreserve(&lease->target.cuda, lease->address, BLOCK_BYTES);
        target_deinit(&lease->target);
        echo_deinit(&lease->echo);
}

int command_lease(const struct options *options, struct rows *rows)
{
        struct lease lease = LEASE_NULL;
        int r = open_all(options, &lease);

        if (!r)
                r = measure(&lease, options, rows);
        close_all(&lease);
        return r;
}
