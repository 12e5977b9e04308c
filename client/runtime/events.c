/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/events.h"

#include <assert.h>

#include "base/clock.h"
#include "base/err.h"

#define INTERVAL_NS UINT64_C(1000000000)

static _Thread_local bool in_callback;

void events_init(struct events *events, struct after_call *after_call)
{
        pthread_condattr_t by_our_clock;

        *events = (struct events){.after_call = after_call};
        pthread_mutex_init(&events->lock, NULL);
        pthread_cond_init(&events->idle, NULL);
        pthread_condattr_init(&by_our_clock);
        pthread_condattr_setclock(&by_our_clock, CLOCK_MONOTONIC);
        pthread_cond_init(&events->stir, &by_our_clock);
        pthread_condattr_destroy(&by_our_clock);
}

/* The caller has the lock. */
static void set_news(struct events *events, bool is_news)
{
        if (atomic_exchange(&events->is_news, is_news) == is_news)
                return;
        if (is_news)
                after_call_add(events->after_call, 1);
        else
                after_call_sub(events->after_call, 1);
}

void events_deinit(struct events *events)
{
        pthread_cond_destroy(&events->stir);
        pthread_cond_destroy(&events->idle);
        pthread_mutex_destroy(&events->lock);
}

bool events_in_callback(void)
{
        return in_callback;
}

int events_set(struct events *events, gpumem_event_callback *callback, void *argument)
{
        if (in_callback)
                return GPUMEM_E_IN_CALLBACK;
        pthread_mutex_lock(&events->lock);
        events->callback = NULL;
        while (events->n_running)
                pthread_cond_wait(&events->idle, &events->lock);
        events->callback = callback;
        events->argument = argument;
        set_news(events, false);
        for (unsigned i = 0; i < EVENTS_N_KINDS; i++)
                events->slots[i] = (struct events_slot){.told = false};
        pthread_mutex_unlock(&events->lock);
        return 0;
}

/* The caller has the lock. */
static void stir(struct events *events)
{
        events->n_stirs++;
        pthread_cond_broadcast(&events->stir);
}

void events_stir(struct events *events)
{
        pthread_mutex_lock(&events->lock);
        stir(events);
        pthread_mutex_unlock(&events->lock);
}

void events_wait(struct events *events, uint32_t n_ms)
{
        struct timespec until = clock_after_ms(n_ms);
        uint64_t n_before;
        int r = 0;

        pthread_mutex_lock(&events->lock);
        n_before = events->n_stirs_told;
        while (!r && events->n_stirs == n_before)
                r = pthread_cond_timedwait(&events->stir, &events->lock, &until);
        events->n_stirs_told = events->n_stirs;
        pthread_mutex_unlock(&events->lock);
}

bool events_note_unheard(struct events *events, enum gpumem_event_kind kind)
{
        bool is_unheard;

        pthread_mutex_lock(&events->lock);
        is_unheard = !events->callback;
        if (is_unheard) {
                atomic_fetch_add(&events->n_noted[kind], 1);
                stir(events);
        }
        pthread_mutex_unlock(&events->lock);
        return is_unheard;
}

void events_note(struct events *events, const struct gpumem_event *event)
{
        struct events_slot *slot = &events->slots[event->kind];
        uint64_t at_ns = clock_now_ns();

        assert(event->kind > 0 && event->kind < EVENTS_N_KINDS);
        pthread_mutex_lock(&events->lock);
        stir(events);
        if (!events->callback) {
                /* It is counted only. */
        } else if (slot->waiting || (slot->told && at_ns - slot->at_ns < INTERVAL_NS)) {
                slot->n_suppressed++;
        } else {
                slot->event = *event;
                slot->event.struct_size = sizeof(slot->event);
                slot->waiting = true;
                slot->told = true;
                slot->at_ns = at_ns;
                slot->turn = events->n_turns++;
                set_news(events, true);
        }
        /* Last: the next call of a thread that reads the count delivers the event. */
        atomic_fetch_add(&events->n_noted[event->kind], 1);
        pthread_mutex_unlock(&events->lock);
}

static struct events_slot *find_first(struct events *events)
{
        struct events_slot *first = NULL;

        for (unsigned i = 1; i < EVENTS_N_KINDS; i++) {
                struct events_slot *slot = &events->slots[i];

                if (slot->waiting && (!first || slot->turn < first->turn))
                        first = slot;
        }
        return first;
}

/* Takes the waiting event that was noted first. The caller has the lock. */
static bool take(struct events *events, struct gpumem_event *ret_event)
{
        struct events_slot *slot = find_first(events);

        if (!slot) {
                set_news(events, false);
                return false;
        }
        *ret_event = slot->event;
        ret_event->n_suppressed = slot->n_suppressed;
        slot->n_suppressed = 0;
        slot->waiting = false;
        return true;
}

void events_tell_news(struct events *events)
{
        struct gpumem_event event;

        if (in_callback)
                return;
        pthread_mutex_lock(&events->lock);
        while (events->callback && take(events, &event)) {
                gpumem_event_callback *callback = events->callback;
                void *argument = events->argument;

                events->n_running++;
                pthread_mutex_unlock(&events->lock);
                in_callback = true;
                callback(&event, argument);
                in_callback = false;
                pthread_mutex_lock(&events->lock);
                if (--events->n_running == 0)
                        pthread_cond_broadcast(&events->idle);
        }
        pthread_mutex_unlock(&events->lock);
}
