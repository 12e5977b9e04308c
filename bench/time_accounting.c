/* SPDX-License-Identifier: Apache-2.0 */
/* time_accounting SOCKET SOCKET: what a lease and its return cost of the first gpumemd beside the second, whose scheduler
 * measures no time (bench/untimed_scheduler.h). CPU time is counted. By turns: of each turn the least of some short batches counts on each
 * side, since other load only adds; its ratio is one of those of which the median is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/bare.h"
#include "bench/commands.h"
#include "bench/pin.h"
#include "bench/timing.h"

#define N_TURNS     31
#define N_BATCHES   8 /* in a turn, of each side */
#define N_LEASES    500
#define N_WARM_UP   20
#define BLOCK_BYTES (2 * MIB)

enum { TIMED, UNTIMED, N_SIDES };

/* Nanoseconds of CPU time, of one lease with its return. */
struct cost {
        double both, daemon;
};

static uint64_t cpu_ns(pid_t process)
{
        struct timespec time = {.tv_sec = 0};
        clockid_t clock;

        if (clock_getcpuclockid(process, &clock) == 0)
                (void)clock_gettime(clock, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int lease(struct bare *bare, unsigned n)
{
        int r = 0;

        for (unsigned i = 0; i < n && !r; i++) {
                struct message_leased leased;
                int fd;

                r = bare_lease(bare, BLOCK_BYTES, &leased, &fd);
                if (r)
                        break;
                (void)close(fd);
                r = bare_return(bare, leased.lease);
        }
        return r;
}

static int measure(struct bare *bare, struct cost *ret_cost)
{
        uint64_t own_ns, daemon_ns;
        int r = lease(bare, N_WARM_UP);

        own_ns = cpu_ns(getpid());
        daemon_ns = cpu_ns(bare->daemon);
        if (!r)
                r = lease(bare, N_LEASES);
        if (r)
                return r;
        own_ns = cpu_ns(getpid()) - own_ns;
        daemon_ns = cpu_ns(bare->daemon) - daemon_ns;
        *ret_cost = (struct cost){.both = (double)(own_ns + daemon_ns) / N_LEASES,
                                  .daemon = (double)daemon_ns / N_LEASES};
        return 0;
}

static void tell(const char *what, struct samples *timed, struct samples *untimed,
                 struct samples *ratios)
{
        double ratio = samples_median(ratios);

        (void)printf("%-30s %8.0f %8.0f ns  ratio %.3f (%.3f-%.3f in the middle half)\n", what,
                     samples_median(timed), samples_median(untimed), ratio,
                     ratios->values[ratios->n / 4], ratios->values[ratios->n - 1 - ratios->n / 4]);
}

static double least(double a, double b)
{
        return a && a < b ? a : b;
}

/* Who is first changes: what disturbs comes and goes. */
static int take_turn(struct bare bares[N_SIDES], unsigned turn, struct cost ret_costs[N_SIDES])
{
        struct cost costs[N_SIDES] = {{.both = 0}};

        for (unsigned i = 0; i < N_BATCHES * N_SIDES; i++) {
                unsigned side = (turn + i) % N_SIDES;
                struct cost cost;
                int r = measure(&bares[side], &cost);

                if (r)
                        return r;
                costs[side].both = least(costs[side].both, cost.both);
                costs[side].daemon = least(costs[side].daemon, cost.daemon);
        }
        memcpy(ret_costs, costs, sizeof(costs));
        return 0;
}

static int compare(struct bare bares[N_SIDES])
{
        struct samples both[N_SIDES] = {{.n = 0}}, daemons[N_SIDES] = {{.n = 0}};
        struct samples both_ratios = {.n = 0}, daemons_ratios = {.n = 0};

        for (unsigned turn = 0; turn < N_TURNS; turn++) {
                struct cost costs[N_SIDES];
                int r = take_turn(bares, turn, costs);

                if (r)
                        return r;
                for (unsigned side = 0; side < N_SIDES; side++) {
                        samples_add(&both[side], costs[side].both);
                        samples_add(&daemons[side], costs[side].daemon);
                }
                samples_add(&both_ratios, costs[TIMED].both / costs[UNTIMED].both);
                samples_add(&daemons_ratios, costs[TIMED].daemon / costs[UNTIMED].daemon);
        }
        tell("a lease, client and gpumemd", &both[TIMED], &both[UNTIMED], &both_ratios);
        tell("of it gpumemd", &daemons[TIMED], &daemons[UNTIMED], &daemons_ratios);
        return 0;
}

int main(int argc, char **argv)
{
        struct bare bares[N_SIDES] = {BARE_NULL, BARE_NULL};
        int cpu, r = argc == 1 + N_SIDES ? pin_choose(&cpu) : -EINVAL;

        if (!r)
                r = pin_to_cpu(getpid(), cpu);
        for (unsigned side = 0; side < N_SIDES && !r; side++) {
                const struct options options = {.socket_path = argv[1 + side]};

                r = bare_init(&options, &bares[side]);
                if (!r)
                        r = pin_to_cpu(bares[side].daemon, cpu);
        }
        if (!r)
                r = compare(bares);
        for (unsigned side = 0; side < N_SIDES; side++)
                bare_deinit(&bares[side]);
        if (r)
                (void)fprintf(stderr,
                              "time_accounting: error %d; usage: time_accounting SOCKET SOCKET\n",
                              r);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
