/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/rates.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "bench/echo.h"
#include "tests/attack/gang.h"
#include "tests/attack/works.h"

#define LESSEE  65004
#define AWAIT_S 20

static struct echo echoes[RATES_MEMBERS_MAX];

/* The messages of a lease: one with an answer that has a fd, and one without an answer. */
static void work_echo(struct gang_member *self)
{
        struct echo *echo = &echoes[self->index];

        gang_is_ready(self);
        for (;;) {
                if (echo_call(echo, ECHO_WITH_FD) || echo_call(echo, ECHO_NONE))
                        _exit(1);
                self->n_done++;
        }
}

/* Of a gang that is at work. */
static int rate_of(const struct gang_rule *rule, double seconds, double *ret_rate)
{
        struct gang *gang = gang_start(rule);
        struct gang_counts before, after;
        uint64_t from_ns, ns;
        int r = gang_await(gang, AWAIT_S) ? 0 : -ETIMEDOUT;

        gang_go(gang);
        (void)usleep(200000);
        before = gang_count(gang);
        from_ns = clock_now_ns();
        (void)usleep((useconds_t)(seconds * 1e6));
        after = gang_count(gang);
        ns = clock_now_ns() - from_ns;
        gang_end(gang);
        if (after.n_failed || after.n_refused)
                r = -EPROTO;
        if (!r)
                *ret_rate += (double)(after.n_done - before.n_done) * 1e9 / (double)ns;
        return r;
}

static int rate_of_echoes(unsigned n, double seconds, double *ret_rate)
{
        const struct gang_rule rule = {.n = n, .uid = LESSEE, .work = work_echo};
        int r = echo_init_members(n, echoes);

        if (r)
                return r;
        r = rate_of(&rule, seconds, ret_rate);
        for (unsigned i = n; i > 0; i--)
                closep(&echoes[i - 1].socket);
        echo_deinit(&echoes[0]);
        return r;
}

int rates_measure(unsigned n_members, double seconds, unsigned n_turns, struct rates *ret_rates)
{
        const struct gang_rule rule = {
                .n = n_members, .uid = LESSEE, .work = work_lease_alone, .n_bytes = 2 * MIB};
        struct rates rates = {.leases = 0};
        int r = 0;

        for (unsigned i = 0; i < n_turns && !r; i++) {
                r = rate_of_echoes(n_members, seconds / n_turns, &rates.echoes);
                if (!r)
                        r = rate_of(&rule, seconds / n_turns, &rates.leases);
        }
        rates.leases /= n_turns;
        rates.echoes /= n_turns;
        if (!r)
                *ret_rates = rates;
        return r;
}
