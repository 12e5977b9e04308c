/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-attack DAEMON ATTACK: attacks the daemon with that pid, whose socket GPUMEM_SOCKET names, and prints what
 * others saw of it beside what is wanted. Exit status: 0, 1 if something was missed, 77 if it cannot be tried here.
 * With --short only what can be counted is judged, and no time. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/server/transport/acceptor.h"
#include "proto/messages.h"
#include "tests/attack/attacks.h"
#include "tests/attack/cpus.h"
#include "tests/attack/loop_time.h"
#include "tests/attack/loop_waits.h"
#include "tests/attack/rates.h"
#include "tests/attack/steps.h"
#include "tests/attack/table.h"
#include "tests/attack/victim.h"
#include "tests/attack/works.h"

#define PREPARE_S   120
#define ANSWER_S    30
#define SETTLE_US   500000
#define SLICE_US    500000
#define UNLOADED_US 1500000
#define POLL_US     1000
#define CANNOT      77

static bool is_short;
static pid_t daemon_pid;

struct fight {
        const struct attack *attack;
        struct gang *gangs[ATTACK_GANGS_MAX];
        struct victims *victims;
        struct steps steps;                          /* before the attack, */
        struct gang_counts before[ATTACK_GANGS_MAX]; /* what had been done then, */
        uint64_t at_ns;                              /* and when that was */
};

static void wait_us(unsigned us)
{
        (void)usleep(is_short ? us / 3 : us);
}

static unsigned seconds_of(const struct attack *attack)
{
        return attack->seconds ? attack->seconds : ATTACK_SECONDS;
}

/* Each is ready before the next starts: an attacker may need what the one before holds. */
static void prepare(struct fight *fight)
{
        for (unsigned i = 0; i < fight->attack->n_gangs; i++) {
                fight->gangs[i] = gang_start(&fight->attack->gangs[i]);
                if (!gang_await(fight->gangs[i], PREPARE_S))
                        table_row(fight->attack->name, "prepared", MISSED, "all attackers",
                                  "not all within %d s", PREPARE_S);
        }
}

static void go(struct fight *fight)
{
        for (unsigned i = 0; i < fight->attack->n_gangs; i++)
                gang_go(fight->gangs[i]);
}

static struct gang *last_gang(const struct fight *fight)
{
        return fight->attack->n_gangs ? fight->gangs[fight->attack->n_gangs - 1] : NULL;
}

static const char *text_of(int r)
{
        return r < 0 ? strerror(-r) : proto_error_text(r);
}

static enum verdict verdict_of(bool is_so)
{
        return is_so ? HELD : MISSED;
}

/* Times are judged in the long form only. */
static enum verdict time_verdict(bool is_so)
{
        return is_short ? NO_VERDICT : verdict_of(is_so);
}

static void judge_latency(struct fight *fight, enum victim_question question)
{
        struct victim_times times = victims_times(fight->victims, VICTIM_ATTACKED, question);

        table_row(fight->attack->name, victim_question_name(question),
                  time_verdict(times.n && times.p99_ms <= 0.5 && times.max_ms <= 2),
                  "p99 <= 0.5, max <= 2", "p50 %.3f p99 %.3f max %.3f ms, n %u", times.p50_ms,
                  times.p99_ms, times.max_ms, times.n);
}

static void judge_nearness(struct fight *fight)
{
        struct victim_times before = victims_times(fight->victims, VICTIM_UNLOADED, VICTIM_LEASES),
                            times = victims_times(fight->victims, VICTIM_ATTACKED, VICTIM_LEASES);
        double most_ms = 2 * before.p99_ms + 0.3;
        char wanted[32];

        (void)snprintf(wanted, sizeof(wanted), "p99 <= %.3f ms", most_ms);
        table_row(fight->attack->name, victim_question_name(VICTIM_LEASES),
                  time_verdict(times.n && times.p99_ms <= most_ms), wanted,
                  "p50 %.3f p99 %.3f max %.3f ms, n %u", times.p50_ms, times.p99_ms, times.max_ms,
                  times.n);
}

/* Counts that hold whatever the time: each question of others is answered, and as it should be. Both forms judge them;
 * figures of the daemon that count belong here, too. */
static void judge_answers(struct fight *fight, bool have_all)
{
        unsigned n = 0, n_errors = 0, n_unasked = 0;
        int error = 0;

        for (unsigned i = 0; i < VICTIM_N_QUESTIONS; i++) {
                enum victim_question question = (enum victim_question)i;
                struct victim_times times = victims_times(fight->victims, VICTIM_ATTACKED,
                                                          question);

                n += times.n;
                n_errors += times.n_errors;
                n_unasked += times.n == 0;
                if (times.n_errors)
                        error = victims_last_error(fight->victims, question);
        }
        table_row(fight->attack->name, "answers", verdict_of(have_all && !n_errors && !n_unasked),
                  "all, no error", "%u, %u errors%s%.24s%s", n, n_errors, error ? ": " : "",
                  error ? text_of(error) : "", have_all ? "" : ", one is missing");
}

/* Requests that were answered since the attack began. */
static uint64_t n_asked_by(const struct fight *fight, unsigned gang)
{
        struct gang_counts now = gang_count(fight->gangs[gang]), before = fight->before[gang];

        return now.n_done + now.n_refused - before.n_done - before.n_refused;
}

static void begin_counting(struct fight *fight)
{
        if (steps_read(&fight->steps))
                fight->steps = (struct steps){.n = UINT64_MAX};
        for (unsigned i = 0; i < fight->attack->n_gangs; i++)
                fight->before[i] = gang_count(fight->gangs[i]);
        fight->at_ns = clock_now_ns();
}

/* Connections that no step has taken yet count as done by the process that connects. */
#define IN_FRONT_MAX (8 + ACCEPTOR_WAITING_MAX)

/* There may be no step for each: of requests whose answers are never read, and of connections that end at once. */
static bool may_lack_steps(void (*work)(struct gang_member *self))
{
        return work == work_never_read || work == work_connect;
}

/* Requests of all for which there was a step at least. */
static uint64_t n_steps_of(const struct fight *fight)
{
        const struct gang *attackers = last_gang(fight);
        uint64_t n = 0, n_asked;

        for (unsigned i = 0; i < VICTIM_N_QUESTIONS; i++)
                n += victims_times(fight->victims, VICTIM_ATTACKED, (enum victim_question)i).n;
        if (!attackers || may_lack_steps(fight->attack->gangs[fight->attack->n_gangs - 1].work))
                return n;
        n_asked = n_asked_by(fight, fight->attack->n_gangs - 1);
        return n_asked > IN_FRONT_MAX ? n + n_asked - IN_FRONT_MAX : n;
}

/* No step does the work of two requests: each that was answered is a step at least. */
static void judge_steps(const struct fight *fight, uint64_t n_least)
{
        uint64_t n, n_late;
        struct steps now;

        if (steps_read(&now) || fight->steps.n > now.n) {
                table_row(fight->attack->name, "steps", MISSED, "counted", "no statistics");
                return;
        }
        n = now.n - fight->steps.n;
        n_late = now.n_late - fight->steps.n_late;
        table_row(fight->attack->name, "steps", verdict_of(n >= n_least), "one a request, at least",
                  "%" PRIu64 " steps, %" PRIu64 " requests", n, n_least);
        table_row(fight->attack->name, "late steps", time_verdict(10000 * n_late <= n),
                  "0.01 % above 0.1 ms", "%" PRIu64 " of %" PRIu64 ", longest %.1f ms", n_late, n,
                  (double)now.longest_ns / 1e6);
}

static void judge_waits(const struct fight *fight)
{
        double longest_ms = (double)loop_waits_end() / 1e6;

        table_row(fight->attack->name, "waits", time_verdict(longest_ms <= 2), "max <= 2",
                  "max %.1f ms, for the kernel's locks", longest_ms);
}

/* What is late without gpumemd, where nothing is to be seen of it. */
static void tell_machine(const struct fight *fight)
{
        struct steps bare;

        if (is_short || fight->attack->n_gangs)
                return;
        bare = steps_of_bare_thread();
        table_row(fight->attack->name, "a bare thread's", NO_VERDICT, "",
                  "%" PRIu64 " of %" PRIu64 ", longest %.1f ms", bare.n_late, bare.n,
                  (double)bare.longest_ns / 1e6);
}

/* An attack by so many connections a second that does not reach them shows nothing. */
static void judge_rate(const struct fight *fight)
{
        const struct gang_rule *rule = &fight->attack->gangs[0];
        double seconds = (double)(clock_now_ns() - fight->at_ns) / 1e9, rate;
        double wanted = (double)rule->amount * rule->n;
        char text[32];

        if (fight->attack->n_gangs != 1 || rule->work != work_connect || !rule->amount)
                return;
        rate = (double)n_asked_by(fight, 0) / seconds;
        (void)snprintf(text, sizeof(text), ">= %.0f a second", 0.95 * wanted);
        table_row(fight->attack->name, "rate reached", time_verdict(rate >= 0.95 * wanted), text,
                  "%.0f connections a second", rate);
}

static bool are_answered_so(const struct fight *fight, const struct gang_counts *counts)
{
        const struct attack *attack = fight->attack;

        if (counts->n_failed)
                return false;
        switch (attack->answers) {
        case ATTACKERS_ARE_SERVED:
                return counts->n_done && !counts->n_refused;
        case ATTACKERS_ARE_REFUSED:
                return counts->n_refused && counts->first_error == attack->refused_with &&
                       counts->n_done == fight->before[attack->n_gangs - 1].n_done;
        case ATTACKERS_ARE_EITHER:
                break;
        }
        return counts->n_done + counts->n_refused;
}

/* The long form has more attackers than the machine may have time or room for. */
static void tell_attackers(const struct fight *fight)
{
        static const char *const wanted[] = {
                [ATTACKERS_ARE_SERVED] = "all done",
                [ATTACKERS_ARE_REFUSED] = "refused",
                [ATTACKERS_ARE_EITHER] = "none failed",
        };
        struct gang_counts counts;

        if (!fight->attack->n_gangs)
                return;
        counts = gang_count(last_gang(fight));
        table_row(fight->attack->name, "attackers",
                  is_short ? verdict_of(are_answered_so(fight, &counts)) : NO_VERDICT,
                  is_short ? wanted[fight->attack->answers] : "",
                  "%" PRIu64 " done, %" PRIu64 " refused, %" PRIu64 " failed", counts.n_done,
                  counts.n_refused, counts.n_failed);
        if (counts.n_refused + counts.n_failed)
                table_row(fight->attack->name, "attackers' error", NO_VERDICT, "", "%.40s",
                          text_of(counts.first_error));
}

/* The short form is too short for some attackers on a slow machine. */
static void await_attackers(const struct fight *fight)
{
        uint64_t end_ns = clock_now_ns() + ANSWER_S * NS_PER_S;
        struct gang_counts counts;

        do {
                (void)usleep(POLL_US);
                counts = gang_count(last_gang(fight));
        } while (counts.n_done + counts.n_refused == 0 && clock_now_ns() < end_ns);
}

/* Of few users each may ask all the time, and asks for less than its share. Attacks that come at one moment leave the
 * rest of the time to all. */
#define FEW_USERS     3
#define PAUSE_EACH_NS UINT64_C(300000)

static uint64_t victims_pause(const struct attack *attack)
{
        unsigned n_users = 0;

        for (unsigned i = 0; i < attack->n_gangs; i++)
                n_users += attack->gangs[i].each_a_user ? attack->gangs[i].n : 1;
        return n_users > FEW_USERS && attack->figure == ATTACK_LATENCY ? n_users * PAUSE_EACH_NS
                                                                       : 0;
}

/* What is seen beside an attack. */
static void watch(struct fight *fight)
{
        uint64_t n_steps;
        bool have_all;

        cpus_leave_to_victims(daemon_pid);
        fight->victims = victims_start(victims_pause(fight->attack));
        (void)victims_enter(fight->victims, VICTIM_UNLOADED, ANSWER_S);
        wait_us(UNLOADED_US);
        (void)victims_enter(fight->victims, VICTIM_RESTS, ANSWER_S);
        prepare(fight);
        if (fight->attack->kills) {
                go(fight);
                wait_us(SETTLE_US);
        }
        begin_counting(fight);
        loop_waits_begin(daemon_pid);
        (void)victims_enter(fight->victims, VICTIM_ATTACKED, ANSWER_S);
        go(fight);
        if (fight->attack->kills)
                gang_kill(last_gang(fight));
        wait_us(seconds_of(fight->attack) * 1000000);
        if (is_short && fight->attack->n_gangs)
                await_attackers(fight);
        judge_rate(fight);
        have_all = victims_enter(fight->victims, VICTIM_RESTS, ANSWER_S);
        n_steps = n_steps_of(fight);
        if (fight->attack->figure == ATTACK_NEAR)
                judge_nearness(fight);
        for (unsigned i = 0; fight->attack->figure == ATTACK_LATENCY && i < VICTIM_N_QUESTIONS; i++)
                judge_latency(fight, (enum victim_question)i);
        judge_answers(fight, have_all);
        judge_steps(fight, n_steps);
        judge_waits(fight);
        tell_attackers(fight);
        victims_end(fight->victims);
        tell_machine(fight);
}

struct share {
        uint64_t n_first, n_all;
};

/* In a slice of time in which all are at work. */
static struct share share_of_slice(struct fight *fight)
{
        struct gang_counts before[ATTACK_GANGS_MAX];
        struct share share = {.n_all = 0};

        for (unsigned i = 0; i < fight->attack->n_gangs; i++)
                before[i] = gang_count(fight->gangs[i]);
        wait_us(SLICE_US);
        for (unsigned i = 0; i < fight->attack->n_gangs; i++) {
                uint64_t n = gang_count(fight->gangs[i]).n_done - before[i].n_done;

                share.n_all += n;
                if (i == 0)
                        share.n_first = n;
        }
        return share;
}

static void rest(struct fight *fight)
{
        gang_pause(last_gang(fight), true);
        wait_us(SLICE_US);
        gang_pause(last_gang(fight), false);
}

/* In both forms: the neighbour is served, and each frame is a step. It may be refused what waits for a driver's call, where
 * too many of its user's requests do. */
static void judge_shared(const struct fight *fight)
{
        struct gang_counts first = gang_count(fight->gangs[0]);
        uint64_t n_served = first.n_done - fight->before[0].n_done, n_steps = 0;

        /* Each lease is two frames, LEASE and RETURN, but for those of which the RETURN is not read yet. */
        for (unsigned i = 0; i < fight->attack->n_gangs; i++) {
                const struct gang_rule *rule = &fight->attack->gangs[i];
                uint64_t n_under_way = (uint64_t)rule->n * rule->amount * rule->window;
                uint64_t n_done = gang_count(fight->gangs[i]).n_done - fight->before[i].n_done;

                n_steps += n_asked_by(fight, i) + (n_done > n_under_way ? n_done - n_under_way : 0);
        }
        table_row(fight->attack->name, "answers", verdict_of(n_served && !first.n_failed),
                  "served, no error", "%" PRIu64 ", %" PRIu64 " errors", n_served, first.n_failed);
        judge_steps(fight, n_steps);
}

/* Who asks as much as another has its share of the loop: requests of one kind cost the same. */
static void share(struct fight *fight)
{
        unsigned n_slices = seconds_of(fight->attack) * 1000000 / SLICE_US;
        struct share all = {.n_all = 0};
        char wanted[32];
        double percent;

        prepare(fight);
        begin_counting(fight);
        go(fight);
        wait_us(SETTLE_US);
        for (unsigned i = 0; i < n_slices; i++) {
                struct share slice = share_of_slice(fight);

                all.n_first += slice.n_first;
                all.n_all += slice.n_all;
                if (fight->attack->returns)
                        rest(fight);
        }
        if (is_short)
                await_attackers(fight);
        percent = all.n_all ? 100 * (double)all.n_first / (double)all.n_all : 0;
        (void)snprintf(wanted, sizeof(wanted), ">= %u %%", fight->attack->percent);
        table_row(fight->attack->name, "share",
                  time_verdict(percent >= (double)fight->attack->percent), wanted,
                  "%.1f %% of %" PRIu64 " leases", percent, all.n_all);
        judge_shared(fight);
        tell_attackers(fight);
}

static void fight(const struct attack *attack)
{
        struct fight fight = {.attack = attack};

        if (attack->figure == ATTACK_SHARE)
                share(&fight);
        else
                watch(&fight);
        for (unsigned i = 0; i < attack->n_gangs; i++)
                gang_end(fight.gangs[i]);
        gang_remove_containers();
}

static void compare_rates(const struct attack *attack)
{
        static const unsigned counts[] = {1, 4, 16, 64, 256};

        for (unsigned i = 0; i < (is_short ? 3 : ARRAY_SIZE(counts)); i++) {
                struct rates rates = {.leases = 0};
                int r = rates_measure(daemon_pid, counts[i], is_short ? 0.4 : 6, is_short ? 1 : 9,
                                      &rates);
                char name[32];

                (void)snprintf(name, sizeof(name), "%u processes", counts[i]);
                if (r)
                        table_row(attack->name, name, MISSED, "no error", "failed: %s", text_of(r));
                else
                        table_row(attack->name, name, time_verdict(rates.ratio >= 0.8),
                                  ">= 0.80 of an echo",
                                  "%.2f (%.2f-%.2f): %.0f of %.0f a s, %.2f of %.2f us",
                                  rates.ratio, rates.least, rates.most, rates.leases, rates.echoes,
                                  rates.lease_us, rates.echo_us);
        }
}

static bool can_be_tried(const struct attack *attack)
{
        for (unsigned i = 0; i < attack->n_gangs; i++) {
                if (!gang_can_be(attack->gangs[i].place))
                        return false;
        }
        return geteuid() == 0;
}

static int run(const struct attack *attack)
{
        struct attack shortened = attack_shortened(attack);

        if (!can_be_tried(attack)) {
                table_row(attack->name, "", NO_VERDICT, "root, and cgroups", "left out");
                return CANNOT;
        }
        if (is_short)
                attack = &shortened;
        if (attack->figure == ATTACK_RATES)
                compare_rates(attack);
        else
                fight(attack);
        return table_n_missed() ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int list(void)
{
        for (unsigned i = 0; i < n_attacks; i++)
                (void)puts(attacks[i].name);
        return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
        const struct attack *attack;
        int r;

        (void)signal(SIGPIPE, SIG_IGN);
        if (argc == 2 && strcmp(argv[1], "--list") == 0)
                return list();
        if (argc == 2 && strcmp(argv[1], "--columns") == 0) {
                table_columns();
                return EXIT_SUCCESS;
        }
        is_short = argc == 4 && strcmp(argv[3], "--short") == 0;
        attack = argc >= 3 ? attack_of(argv[2]) : NULL;
        if (!attack) {
                (void)fprintf(stderr, "usage: gpumem-attack DAEMON ATTACK [--short]; --list names "
                                      "the attacks; --columns prints the table's head\n");
                return 2;
        }
        daemon_pid = (pid_t)atoi(argv[1]);
        r = loop_time_open(daemon_pid);
        if (r && !is_short) {
                (void)fprintf(stderr,
                              "gpumem-attack: the kernel does not count the CPU time of process "
                              "%s: %s\n",
                              argv[1], strerror(-r));
                return CANNOT;
        }
        r = run(attack);
        loop_time_close();
        return r;
}
