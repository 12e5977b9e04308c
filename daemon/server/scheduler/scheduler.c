/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/scheduler/scheduler.h"

#include <assert.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"

/* After this time it looks for news. */
#define TURN_NS UINT64_C(25000)

/* The CPU's clock is slow. It is read so often while there is work, after so much idle time, and after steps that took
 * longer than this. */
#define READ_NS    UINT64_C(1000000)
#define IDLE_NS    UINT64_C(250000)
#define SUSPECT_NS UINT64_C(20000)

/* For each nanosecond of a payer with a guarantee others have so many: a tenth of all time, and half of it. */
#define TENTH_OTHERS 9
#define HALF_OTHERS  1

/* What is kept of the guarantee while the payer wants nothing; and how far it may be in debt, for time that it had when
 * no other wanted it. */
#define CREDIT_MAX_NS ((int64_t)PAYER_STEP_MAX_NS)

/* Above each uid, and below the numbers of containers. */
#define OWNER_NUMBER(n) (UINT64_C(1) << 32 | (n))

static void on_own_end(struct payer *payer)
{
        (void)payer;
}

int scheduler_open(struct scheduler *scheduler, uv_loop_t *loop,
                   const struct scheduler_calls *calls)
{
        int r;

        scheduler->loop = loop;
        scheduler->calls = calls;
        scheduler->stats.since_ns = clock_now_ns();
        scheduler->stats.since_cpu_ns = clock_thread_cpu_ns();
        payer_init_root(&scheduler->everyone);
        scheduler->guaranteed[0].payer = &scheduler->admin;
        scheduler->guaranteed[1].payer = &scheduler->arriving;
        scheduler->guaranteed[0].n_others = scheduler->guaranteed[1].n_others = TENTH_OTHERS;
        scheduler->guaranteed[2].payer = &scheduler->serving;
        scheduler->guaranteed[2].n_others = HALF_OTHERS;
        r = payer_init(&scheduler->admin, &scheduler->everyone, on_own_end);
        if (!r)
                r = payer_init(&scheduler->node, &scheduler->everyone, on_own_end);
        if (!r)
                r = payer_init(&scheduler->arriving, &scheduler->everyone, on_own_end);
        if (!r)
                r = payer_init(&scheduler->serving, &scheduler->everyone, on_own_end);
        scheduler->admin.owner = OWNER_NUMBER(0);
        scheduler->node.owner = OWNER_NUMBER(1);
        scheduler->arriving.owner = OWNER_NUMBER(2);
        scheduler->serving.owner = OWNER_NUMBER(3);
        return r ? r : fd_watches_open(&scheduler->watches, loop);
}

void scheduler_close(struct scheduler *scheduler)
{
        scheduler->is_closed = true;
}

void scheduler_deinit(struct scheduler *scheduler)
{
        if (scheduler->admin.n_refs)
                payer_unref(&scheduler->admin);
        if (scheduler->node.n_refs)
                payer_unref(&scheduler->node);
        if (scheduler->arriving.n_refs)
                payer_unref(&scheduler->arriving);
        if (scheduler->serving.n_refs)
                payer_unref(&scheduler->serving);
        payer_deinit_root(&scheduler->everyone);
        fd_watches_close(&scheduler->watches);
}

static struct task *next_task(struct scheduler *scheduler, struct payer **ret_payer)
{
        for (unsigned i = 0; i < ARRAY_SIZE(scheduler->guaranteed); i++) {
                struct payer *payer = scheduler->guaranteed[i].payer;

                if (payer->has_work && scheduler->guaranteed[i].credit >= 0)
                        return payer_next(payer, ret_payer);
        }
        return payer_next(&scheduler->everyone, ret_payer);
}

static int64_t bounded(int64_t n_ns, int64_t max_ns)
{
        return n_ns > max_ns ? max_ns : n_ns < -max_ns ? -max_ns : n_ns;
}

static void note_for_guarantees(struct scheduler *scheduler, const struct payer *payer,
                                uint64_t n_ns)
{
        int64_t step_ns = n_ns < PAYER_STEP_MAX_NS ? (int64_t)n_ns : (int64_t)PAYER_STEP_MAX_NS;

        for (unsigned i = 0; i < ARRAY_SIZE(scheduler->guaranteed); i++) {
                struct guarantee *guarantee = &scheduler->guaranteed[i];
                bool is_its = payer == guarantee->payer;
                int64_t credit = is_its ? -step_ns * guarantee->n_others : step_ns;

                guarantee->credit = bounded(guarantee->credit + credit,
                                            CREDIT_MAX_NS * guarantee->n_others);
        }
}

static void note_clocks(struct scheduler *scheduler, uint64_t now_ns, uint64_t now_cpu_ns)
{
        scheduler->read.wall_ns = now_ns;
        scheduler->read.cpu_ns = now_cpu_ns;
        scheduler->read.idle_ns = scheduler->idle_ns;
}

/* A loop that fell asleep and was woken has worked in its idle time, too. After little idle time that is little. */
static bool is_clock_due(const struct scheduler *scheduler, uint64_t now_ns)
{
        return now_ns - scheduler->read.wall_ns > READ_NS ||
               scheduler->idle_ns - scheduler->read.idle_ns > IDLE_NS;
}

/* So much less the time in which the kernel ran others, if there was any since the CPU's clock was last read. */
static uint64_t own_part(const struct scheduler *scheduler, uint64_t n_ns, uint64_t now_ns,
                         uint64_t now_cpu_ns)
{
        uint64_t n_idle_ns = scheduler->idle_ns - scheduler->read.idle_ns;
        uint64_t n_passed_ns = now_ns - scheduler->read.wall_ns - n_idle_ns;
        uint64_t n_ran_ns = now_cpu_ns - scheduler->read.cpu_ns;
        uint64_t n_others_ns = n_passed_ns > n_ran_ns ? n_passed_ns - n_ran_ns : 0;

        n_ns = n_others_ns < n_ns ? n_ns - n_others_ns : 0;
        return n_ns < n_ran_ns ? n_ns : n_ran_ns;
}

static uint64_t own_time(struct scheduler *scheduler, uint64_t now_ns, uint64_t n_ns)
{
        uint64_t cpu_ns;

        if (n_ns <= SUSPECT_NS)
                return n_ns;
        cpu_ns = clock_thread_cpu_ns();
        n_ns = own_part(scheduler, n_ns, now_ns, cpu_ns);
        note_clocks(scheduler, now_ns, cpu_ns);
        return n_ns;
}

uint64_t scheduler_own_time(const struct scheduler *scheduler, uint64_t now_ns, uint64_t n_ns)
{
        return own_part(scheduler, n_ns, now_ns, clock_thread_cpu_ns());
}

static void count(struct scheduler_stats *stats, uint64_t n_ns)
{
        stats->n_steps++;
        stats->n_late += n_ns > SCHEDULER_LATE_NS;
        if (n_ns > stats->longest_ns)
                stats->longest_ns = n_ns;
}

void scheduler_charge_also(struct scheduler *scheduler, struct payer *payer)
{
        assert(scheduler->payer && !scheduler->second);
        payer_ref(payer);
        scheduler->second = payer;
}

static void charge_second(struct scheduler *scheduler, uint64_t n_ns)
{
        struct payer *payer = scheduler->second;

        if (!payer)
                return;
        scheduler->second = NULL;
        payer_charge(payer, n_ns);
        payer_unref(payer);
}

/* Returns whether there was work. */
static bool take_step(struct scheduler *scheduler, uint64_t *now_ns)
{
        struct payer *payer;
        struct task *task = next_task(scheduler, &payer);
        uint64_t since_ns = *now_ns, n_ns;

        if (!task)
                return false;
        scheduler->payer = payer;
        task->step(task);
        scheduler->calls->after_step(scheduler);
        scheduler->payer = NULL;
        *now_ns = clock_now_ns();
        n_ns = own_time(scheduler, *now_ns, *now_ns - since_ns);
        count(&scheduler->stats, n_ns);
        note_for_guarantees(scheduler, payer, n_ns);
        payer_end_step(payer, n_ns);
        charge_second(scheduler, n_ns);
        return true;
}

static void take_turn(struct scheduler *scheduler)
{
        uint64_t now_ns = clock_now_ns(), end_ns = now_ns + TURN_NS;

        if (is_clock_due(scheduler, now_ns))
                note_clocks(scheduler, now_ns, clock_thread_cpu_ns());
        while (now_ns < end_ns && take_step(scheduler, &now_ns))
                ;
}

static void look_for_news(struct scheduler *scheduler)
{
        bool has_more = scheduler->watches.is_loop_ready || scheduler_has_work(scheduler);
        int timeout_ms = has_more ? 0 : uv_backend_timeout(scheduler->loop);

        scheduler->idle_ns += fd_watches_look(&scheduler->watches, timeout_ms);
}

/* Timers count from the time that the loop knows. */
static void run_loop(struct scheduler *scheduler)
{
        uv_update_time(scheduler->loop);
        if (!scheduler->watches.is_loop_ready && uv_backend_timeout(scheduler->loop))
                return;
        scheduler->watches.is_loop_ready = false;
        (void)uv_run(scheduler->loop, UV_RUN_NOWAIT);
}

void scheduler_run_once(struct scheduler *scheduler)
{
        look_for_news(scheduler);
        run_loop(scheduler);
        if (!scheduler->is_closed)
                take_turn(scheduler);
        scheduler->calls->after_turn(scheduler);
}

bool scheduler_has_work(const struct scheduler *scheduler)
{
        if (scheduler->is_closed)
                return false;
        return scheduler->payer ? !payer_is_alone(scheduler->payer)
                                : scheduler->everyone.n_with_work > 0;
}

uint64_t scheduler_cpu_ns(const struct scheduler *scheduler)
{
        return clock_thread_cpu_ns() - scheduler->stats.since_cpu_ns;
}
