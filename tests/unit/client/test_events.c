/* SPDX-License-Identifier: Apache-2.0 */
/* Events that one thread notes and another one delivers. */
#include <pthread.h>

#include "client/runtime/events.h"
#include "tests/suite.h"

#define N_ROUNDS 20000

static struct after_call after_call;
static struct events events;
static _Atomic unsigned round_begun;

static void *note_one_a_round(void *argument)
{
        const struct gpumem_event event = {.kind = GPUMEM_EVENT_PRESSURE};

        for (unsigned i = 1; i <= N_ROUNDS; i++) {
                while (atomic_load(&round_begun) < i)
                        (void)sched_yield();
                events_note(&events, &event);
        }
        return argument;
}

static void count(const struct gpumem_event *event, void *argument)
{
        unsigned *n = argument;

        *n += event->kind == GPUMEM_EVENT_PRESSURE;
}

/* A program that polls gpumem_pressure, and then makes a call, has its callback called. */
TEST(a_counted_event_is_delivered_by_the_next_call)
{
        unsigned n_told = 0;
        pthread_t thread;

        events_init(&events, &after_call);
        ck_assert_int_eq(pthread_create(&thread, NULL, note_one_a_round, NULL), 0);
        for (unsigned i = 1; i <= N_ROUNDS; i++) {
                ck_assert_int_eq(events_set(&events, count, &n_told), 0);
                atomic_store(&round_begun, i);
                while (atomic_load(&events.n_noted[GPUMEM_EVENT_PRESSURE]) < i)
                        (void)sched_yield();
                ck_assert(after_call_is_any(&after_call));
                events_tell(&events);
                ck_assert_uint_eq(n_told, i);
                ck_assert(!after_call_is_any(&after_call));
        }
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        events_deinit(&events);
}

TESTS_MAIN("events")
