/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/rates.h"

#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "bench/echo.h"
#include "bench/timing.h"
#include "tests/attack/gang.h"
#include "tests/attack/works.h"

#define LESSEE    65004
#define AWAIT_S   20
#define SETTLE_US 100000

static struct echo echoes[RATES_MEMBERS_MAX];

struct rate {
        double a_second;
        double us_each;
};

static void work_echo(struct gang_member *self)
{
        work_lease_from(self, echoes[self->index].socket);
}

/* Of all its threads. */
static uint64_t cpu_ns(pid_t process)
{
        struct timespec time = {.tv_sec = 0};
        clockid_t clock;

        if (clock_getcpuclockid(process, &clock) == 0)
                (void)clock_gettime(clock, &time);
        return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static int rate_of(const struct gang_rule *rule, pid_t server, double seconds,
                   struct rate *ret_rate)
{
        struct gang *gang = gang_start(rule);
        struct gang_counts before, after;
        uint64_t from_ns, from_cpu_ns, ns, server_ns;
        double n;
        int r = gang_await(gang, AWAIT_S) ? 0 : -ETIMEDOUT;

        gang_go(gang);
        (void)usleep(SETTLE_US);
        before = gang_count(gang);
        from_ns = clock_now_ns();
        from_cpu_ns = cpu_ns(server);
        (void)usleep((useconds_t)(seconds * 1e6));
        after = gang_count(gang);
        ns = clock_now_ns() - from_ns;
        server_ns = cpu_ns(server) - from_cpu_ns;
        gang_end(gang);
        n = (double)(after.n_done - before.n_done);
        if (after.n_failed || after.n_refused || n == 0)
                r = -EPROTO;
        if (!r)
                *ret_rate = (struct rate){.a_second = n * 1e9 / (double)ns,
                                          .us_each = (double)server_ns / 1e3 / n};
        return r;
}

static int rate_of_echoes(unsigned n, double seconds, struct rate *ret_rate)
{
        const struct gang_rule rule = {
                .n = n, .uid = LESSEE, .work = work_echo, .n_bytes = 2 * MIB};
        int r = echo_init_members(n, echoes);

        if (r)
                return r;
        r = rate_of(&rule, echoes[0].pid, seconds, ret_rate);
        for (unsigned i = n; i > 0; i--)
                closep(&echoes[i - 1].socket);
        echo_deinit(&echoes[0]);
        return r;
}

enum { LEASES, ECHOES, LEASE_US, ECHO_US, RATIO, N_FIGURES };

static void add_turn(struct samples samples[N_FIGURES], const struct rate *leases,
                     const struct rate *bare)
{
        samples_add(&samples[LEASES], leases->a_second);
        samples_add(&samples[ECHOES], bare->a_second);
        samples_add(&samples[LEASE_US], leases->us_each);
        samples_add(&samples[ECHO_US], bare->us_each);
        samples_add(&samples[RATIO], leases->a_second / bare->a_second);
}

int rates_measure(pid_t daemon, unsigned n_members, double seconds, unsigned n_turns,
                  struct rates *ret_rates)
{
        const struct gang_rule rule = {
                .n = n_members, .uid = LESSEE, .work = work_lease_alone, .n_bytes = 2 * MIB};
        struct samples samples[N_FIGURES] = {{.n = 0}};
        double turn_s = seconds / (2 * n_turns);

        for (unsigned i = 0; i < n_turns; i++) {
                struct rate bare, leases;
                int r = rate_of_echoes(n_members, turn_s, &bare);

                if (!r)
                        r = rate_of(&rule, daemon, turn_s, &leases);
                if (r)
                        return r;
                add_turn(samples, &leases, &bare);
        }
        *ret_rates = (struct rates){.leases = samples_median(&samples[LEASES]),
                                    .echoes = samples_median(&samples[ECHOES]),
                                    .lease_us = samples_median(&samples[LEASE_US]),
                                    .echo_us = samples_median(&samples[ECHO_US]),
                                    .ratio = samples_median(&samples[RATIO]),
                                    .least = samples[RATIO].values[0],
                                    .most = samples[RATIO].values[n_turns - 1]};
        return 0;
}
