/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/victim.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/attack/cpus.h"
#include "tests/attack/gang.h"
#include "tests/attack/loop_time.h"
#include "tests/flood/peer.h"

#define SAMPLES_MAX 40000
#define PAUSE_US    700
#define REST_US     1000
#define INTERVAL_NS NS_PER_MS /* so far apart are questions at least that are answered at once */
#define PAUSE_TIMES 10        /* as long as it is in the loop's time, a pause may be */

struct victim {
        pid_t pid;
        atomic_uint phase;                 /* in which its present question is asked */
        atomic_uint_least64_t asked_at_ns; /* of the loop's time; 0: no question is under way */
        int last_error;
        struct samples {
                unsigned n, n_errors;
                unsigned n_asked; /* set when they are sorted */
                uint64_t ns[SAMPLES_MAX];
        } samples[VICTIM_N_PHASES];
};

struct victims {
        atomic_uint phase;
        uint64_t pause_ns;
        struct victim each[VICTIM_N_QUESTIONS];
};

static const char *const names[VICTIM_N_QUESTIONS] = {
        [VICTIM_LEASES] = "lease",
        [VICTIM_CONNECTS] = "connection",
        [VICTIM_ADMINISTERS] = "admin",
};

const char *victim_question_name(enum victim_question question)
{
        return names[question];
}

static void must(bool is_so, const char *what)
{
        if (is_so)
                return;
        perror(what);
        abort();
}

static int lease_once(int fd, uint64_t *ret_lease)
{
        struct frame lease = FRAME_NULL, reply;
        int r;

        lease.lease.n_bytes = 2 * MIB;
        r = peer_call(fd, &lease, MESSAGE_LEASE, MESSAGE_LEASED, &reply);
        if (!r)
                *ret_lease = reply.leased.lease;
        return r;
}

static void give_back(int fd, uint64_t lease)
{
        struct frame give = FRAME_NULL;

        give.return_lease.lease = lease;
        give.return_lease.flags = PROTO_RETURN_UNMAPPED;
        (void)peer_send(fd, &give, MESSAGE_RETURN);
}

static int connect_once(void)
{
        int fd = peer_connect(), r;

        if (fd < 0)
                return GPUMEM_E_DISCONNECTED;
        r = peer_hello(fd);
        (void)close(fd);
        return r;
}

static int ask_stats(int fd)
{
        struct frame request = FRAME_NULL, reply;

        return peer_call(fd, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply);
}

static int ask(enum victim_question question, int fd, uint64_t *ret_lease)
{
        switch (question) {
        case VICTIM_LEASES:
                return lease_once(fd, ret_lease);
        case VICTIM_CONNECTS:
                return connect_once();
        case VICTIM_ADMINISTERS:
        case VICTIM_N_QUESTIONS:
                break;
        }
        return ask_stats(fd);
}

static void measure(struct victim *victim, enum victim_question question, int fd)
{
        struct samples *samples = &victim->samples[victim->phase];
        uint64_t from_ns = loop_time_ns(), lease = 0, ns;
        int r;

        victim->asked_at_ns = from_ns ? from_ns : 1;
        r = ask(question, fd, &lease);
        ns = loop_time_ns() - from_ns;
        victim->asked_at_ns = 0;
        if (lease)
                give_back(fd, lease);
        if (r) {
                victim->last_error = r;
                samples->n_errors++;
        } else if (samples->n < SAMPLES_MAX) {
                samples->ns[samples->n++] = ns;
        }
}

/* It runs at once when its answer is there: else the loop would go on meanwhile. */
static void be_first(enum victim_question question)
{
        const struct sched_param first = {.sched_priority = 1};

        cpus_take_own(question);
        (void)sched_setscheduler(0, SCHED_FIFO, &first);
}

static void become(uid_t uid)
{
        must(setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 &&
                     setresuid(uid, uid, uid) == 0,
             "setresuid");
}

static void rest(const struct victims *victims)
{
        uint64_t from_ns = clock_now_ns(), loop_ns = loop_time_ns();
        uint64_t end_ns = from_ns + PAUSE_TIMES * victims->pause_ns;

        do
                (void)usleep(PAUSE_US);
        while (loop_time_ns() - loop_ns < victims->pause_ns && clock_now_ns() < end_ns);
}

static void be_victim(struct victims *victims, enum victim_question question)
{
        struct victim *self = &victims->each[question];
        int fd = -1;

        be_first(question);
        if (question != VICTIM_ADMINISTERS)
                become(question == VICTIM_LEASES ? VICTIM_UID : VICTIM_OF_CONNECTS);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (question != VICTIM_CONNECTS) {
                fd = question == VICTIM_ADMINISTERS ? peer_connect_admin() : peer_connect();
                must(fd >= 0 && peer_hello(fd) == 0, "a victim's connection");
        }
        for (;;) {
                self->phase = victims->phase;
                if (self->phase < VICTIM_N_PHASES) {
                        measure(self, question, fd);
                        rest(victims);
                } else {
                        (void)usleep(REST_US);
                }
        }
}

struct victims *victims_start(uint64_t pause_ns)
{
        struct victims *victims = mmap(NULL, sizeof(*victims), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        must(victims != MAP_FAILED, "mmap");
        victims->phase = VICTIM_RESTS;
        victims->pause_ns = pause_ns;
        (void)fflush(NULL);
        for (unsigned i = 0; i < VICTIM_N_QUESTIONS; i++) {
                pid_t pid = fork();

                must(pid >= 0, "fork");
                if (pid == 0)
                        be_victim(victims, (enum victim_question)i);
                victims->each[i].pid = pid;
        }
        return victims;
}

static bool is_in(const struct victim *victim, enum victim_phase phase)
{
        return victim->phase == (unsigned)phase;
}

/* A question that has no answer counts as if it had one now. */
static void count_as_answered(struct victim *victim)
{
        struct samples *samples = &victim->samples[victim->phase];
        uint64_t from_ns = victim->asked_at_ns;

        if (from_ns && samples->n < SAMPLES_MAX)
                samples->ns[samples->n++] = loop_time_ns() - from_ns;
}

bool victims_enter(struct victims *victims, enum victim_phase phase, unsigned seconds)
{
        uint64_t end_ns = clock_now_ns() + seconds * NS_PER_S;
        bool have_all = true;

        victims->phase = phase;
        for (unsigned i = 0; i < VICTIM_N_QUESTIONS; i++) {
                struct victim *victim = &victims->each[i];

                while (!is_in(victim, phase) && clock_now_ns() < end_ns)
                        (void)usleep(REST_US);
                if (is_in(victim, phase))
                        continue;
                have_all = false;
                count_as_answered(victim);
        }
        return have_all;
}

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/* Questions that would have been asked while one waited for its answer count, too: else a stall of a second would be
 * one sample of many. */
static void add_unasked(struct samples *samples, uint64_t interval_ns)
{
        unsigned n = samples->n;

        for (unsigned i = 0; i < n; i++) {
                uint64_t ns = samples->ns[i];

                for (; ns > 2 * interval_ns && samples->n < SAMPLES_MAX; ns -= interval_ns)
                        samples->ns[samples->n++] = ns - interval_ns;
        }
}

static double at_ms(const struct samples *samples, unsigned percent)
{
        return samples->n ? (double)samples->ns[(uint64_t)(samples->n - 1) * percent / 100] / 1e6
                          : 0;
}

struct victim_times victims_times(struct victims *victims, enum victim_phase phase,
                                  enum victim_question question)
{
        struct samples *samples = &victims->each[question].samples[phase];

        if (!samples->n_asked) {
                samples->n_asked = samples->n;
                add_unasked(samples, INTERVAL_NS + victims->pause_ns);
                qsort(samples->ns, samples->n, sizeof(*samples->ns), compare);
        }
        return (struct victim_times){.n = samples->n_asked,
                                     .n_errors = samples->n_errors,
                                     .p50_ms = at_ms(samples, 50),
                                     .p99_ms = at_ms(samples, 99),
                                     .max_ms = at_ms(samples, 100)};
}

int victims_last_error(const struct victims *victims, enum victim_question question)
{
        return victims->each[question].last_error;
}

void victims_end(struct victims *victims)
{
        for (unsigned i = 0; i < VICTIM_N_QUESTIONS; i++) {
                (void)kill(victims->each[i].pid, SIGKILL);
                (void)waitpid(victims->each[i].pid, NULL, 0);
        }
        (void)munmap(victims, sizeof(*victims));
}
