/* SPDX-License-Identifier: Apache-2.0 */
/* What the application's event callback is told, and when: see gpumem_set_event_callback.
 *
 * News is noted where it happens, under whatever locks, and told at the end of the public call, by the thread that made
 * it, when no lock is held. At most one of a kind is told in a second; others are counted. A thread that is in the
 * callback tells nothing more: so the callback is never nested, and may itself use the library. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/after_call.h"
#include "gpumem.h"

#define EVENTS_N_KINDS 8 /* from 1 */

struct events_slot {
        bool told;      /* ever */
        bool waiting;   /* `event` is to be told */
        uint64_t at_ns; /* when one was last taken to be told */
        uint64_t turn;  /* those that wait are told in the order of it */
        uint32_t n_suppressed;
        struct gpumem_event event;
};

struct events {
        pthread_mutex_t lock; /* guards what follows */
        pthread_cond_t idle;  /* nobody is in the callback */
        gpumem_event_callback *callback;
        void *argument;
        unsigned n_running;
        uint64_t n_turns;
        _Atomic bool is_news; /* a slot waits; read without the lock too */
        struct after_call *after_call;
        _Atomic uint64_t n_noted[EVENTS_N_KINDS]; /* told or not */
        struct events_slot slots[EVENTS_N_KINDS];
};

void events_init(struct events *events, struct after_call *after_call);
void events_deinit(struct events *events);

/* After this the callback that was set before runs nowhere. GPUMEM_E_IN_CALLBACK. */
int events_set(struct events *events, gpumem_event_callback *callback, void *argument);

void events_note(struct events *events, const struct gpumem_event *event);

void events_tell_news(struct events *events);

/* At the end of a public call, without locks. */
static inline void events_tell(struct events *events)
{
        if (__builtin_expect(atomic_load_explicit(&events->is_news, memory_order_relaxed), false))
                events_tell_news(events);
}

/* Is the calling thread in an event callback? */
bool events_in_callback(void);
