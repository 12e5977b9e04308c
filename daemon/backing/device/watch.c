/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/device/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "gpumem.h"

/* How long the end waits for a thread that may hang. */
#define END_MS 1000

enum watch_state { WATCH_RUNS, WATCH_IS_TO_END, WATCH_HAS_ENDED };

struct watch {
        char *library;
        struct watched watched;
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t changed;
        enum watch_state state;
        uint64_t n_asked;
        uint64_t floor_bytes;
        struct watch_report report;
};

/* Logs once: the threads of all devices would log the same. */
static void say_absent(const char *reason)
{
        static atomic_flag is_said = ATOMIC_FLAG_INIT;

        if (!atomic_flag_test_and_set(&is_said))
                log_info("no NVML; free memory, errors and MIG of devices are unknown: %s", reason);
}

static int find_device(const struct watch *watch, struct nvml *nvml, struct nvml_device *device)
{
        char reason[NVML_REASON_MAX];
        int r = nvml_load(watch->library, nvml, reason);

        if (!r) {
                r = nvml_find(nvml, watch->watched.uuid, device);
                if (r)
                        (void)snprintf(reason, sizeof(reason),
                                       "%s knows no device with the UUID of CUDA's",
                                       watch->library);
        }
        if (r)
                say_absent(reason);
        return r;
}

/* Returns whether the thread is to go on. `ret_asked`: the question that the next look answers. */
static bool wait_for_work(struct watch *watch, uint64_t n_answered, uint64_t *ret_asked)
{
        struct timespec end;
        bool is_wanted;
        int r = 0;

        pthread_mutex_lock(&watch->lock);
        end = clock_after_ms(watch->floor_bytes ? WATCH_FLOOR_INTERVAL_MS : WATCH_INTERVAL_MS);
        while (watch->state == WATCH_RUNS && watch->n_asked == n_answered && !r)
                r = pthread_cond_timedwait(&watch->changed, &watch->lock, &end);
        *ret_asked = watch->n_asked;
        is_wanted = watch->state == WATCH_RUNS;
        pthread_mutex_unlock(&watch->lock);
        return is_wanted;
}

static bool goes_on(void *argument)
{
        struct watch *watch = argument;
        bool runs;

        pthread_mutex_lock(&watch->lock);
        runs = watch->state == WATCH_RUNS;
        pthread_mutex_unlock(&watch->lock);
        return runs;
}

/* After a recovery the driver was loaded again, perhaps another version: the canary checks again whether it
 * clears memory. */
static void try_recovered(struct watch *watch, enum nvml_health before, struct watch_report *report)
{
        if (!watch->watched.cuda_library || !nvml_health_is_recovery(before, report->nvml.health))
                return;
        log_debug("device %d: recovered; checking whether its memory is cleared",
                  watch->watched.ordinal);
        report->canary = canary_try(watch->watched.cuda_library, watch->watched.ordinal, goes_on,
                                    watch);
}

static bool report_differs(const struct watch_report *a, const struct watch_report *b)
{
        /* Padding may differ, too, which only costs one wake-up.
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
        return memcmp(&a->nvml, &b->nvml, sizeof(a->nvml)) != 0 ||
               memcmp(a->processes, b->processes, a->nvml.n_processes * sizeof(a->processes[0])) !=
                       0;
}

static bool is_below_floor(const struct watch *watch, const struct nvml_report *report)
{
        return report->n_free_bytes != NVML_UNKNOWN && report->n_free_bytes < watch->floor_bytes;
}

/* Stores a report, and wakes the loop only if it differs from the last one, answers a question, or too little is
 * free: then blocks that have become unused since are to go. */
static void put_report(struct watch *watch, const struct watch_report *report)
{
        bool is_new;

        pthread_mutex_lock(&watch->lock);
        is_new = watch->state == WATCH_RUNS &&
                 (report->n_answered != watch->report.n_answered ||
                  report->canary != watch->report.canary || is_below_floor(watch, &report->nvml) ||
                  report_differs(report, &watch->report));
        watch->report = *report;
        if (is_new)
                watch->watched.wake(watch->watched.wake_argument);
        pthread_mutex_unlock(&watch->lock);
}

/* An error stays in the report if the next look learns nothing. */
static void look(struct watch *watch, const struct nvml *nvml, const struct nvml_device *device,
                 struct nvml_events *events, struct watch_report *report)
{
        enum nvml_health before = report->nvml.health;

        report->n_looks++;
        nvml_look(nvml, device, &report->nvml);
        for (unsigned i = 0; i < report->nvml.n_processes; i++)
                process_lookup((pid_t)report->nvml.processes[i].pid, &report->processes[i]);
        nvml_events_take(nvml, events, &report->nvml);
        report->nvml.health = nvml_health_after(before, report->nvml.health);
        try_recovered(watch, before, report);
}

static void *run(void *argument)
{
        struct watch *watch = argument;
        struct watch_report report = {.n_answered = 0};
        struct nvml_events events = {.set = NULL};
        struct nvml_device device = {.device = NULL};
        struct nvml nvml;
        bool knows_device, is_wanted = true;

        thread_name_self("gpumemd-nvml");
        nvml_report_init(&report.nvml);
        knows_device = find_device(watch, &nvml, &device) == 0;
        if (knows_device)
                nvml_events_open(&nvml, &device, &events);
        while (is_wanted) {
                if (knows_device)
                        look(watch, &nvml, &device, &events, &report);
                put_report(watch, &report);
                is_wanted = wait_for_work(watch, report.n_answered, &report.n_answered);
        }
        if (knows_device)
                nvml_events_close(&nvml, &events);
        pthread_mutex_lock(&watch->lock);
        watch->state = WATCH_HAS_ENDED;
        pthread_cond_broadcast(&watch->changed);
        pthread_mutex_unlock(&watch->lock);
        return NULL;
}

static void watch_discard(struct watch *watch)
{
        pthread_cond_destroy(&watch->changed);
        pthread_mutex_destroy(&watch->lock);
        free(watch->library);
        free(watch);
}

int watch_new(const char *library, const struct watched *watched, struct watch **ret_watch)
{
        struct watch *watch = calloc(1, sizeof(*watch));
        int r = -ENOMEM;

        if (!watch)
                return -ENOMEM;
        watch->library = strdup(library);
        watch->watched = *watched;
        nvml_report_init(&watch->report.nvml);
        pthread_mutex_init(&watch->lock, NULL);
        condition_init_monotonic(&watch->changed);
        if (watch->library)
                r = thread_start(run, watch, &watch->thread);
        if (r) {
                watch_discard(watch);
                return r;
        }
        *ret_watch = watch;
        return 0;
}

struct watch *watch_free(struct watch *watch)
{
        struct timespec end = clock_after_ms(END_MS);
        bool has_ended;
        int r = 0;

        if (!watch)
                return NULL;
        pthread_mutex_lock(&watch->lock);
        watch->state = WATCH_IS_TO_END;
        pthread_cond_broadcast(&watch->changed);
        while (watch->state != WATCH_HAS_ENDED && !r)
                r = pthread_cond_timedwait(&watch->changed, &watch->lock, &end);
        has_ended = watch->state == WATCH_HAS_ENDED;
        pthread_mutex_unlock(&watch->lock);
        if (has_ended) {
                pthread_join(watch->thread, NULL);
                watch_discard(watch);
        } else {
                abandoned_threads_add(watch->thread,
                                      "NVML does not answer; its thread is abandoned");
        }
        return NULL;
}

uint64_t watch_ask(struct watch *watch)
{
        uint64_t number;

        pthread_mutex_lock(&watch->lock);
        number = ++watch->n_asked;
        pthread_cond_broadcast(&watch->changed);
        pthread_mutex_unlock(&watch->lock);
        return number;
}

void watch_set_floor(struct watch *watch, uint64_t n_bytes)
{
        pthread_mutex_lock(&watch->lock);
        watch->floor_bytes = n_bytes;
        pthread_mutex_unlock(&watch->lock);
}

void watch_read(struct watch *watch, struct watch_report *ret_report)
{
        pthread_mutex_lock(&watch->lock);
        *ret_report = watch->report;
        pthread_mutex_unlock(&watch->lock);
}
