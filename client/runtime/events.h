/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers events to the application's callback: see gpumem_set_event_callback.
 *
 * Code that holds locks only notes an event. The thread that made the public call delivers it at the end of the call,
 * when it holds no lock. At most one event of a kind is delivered in a second; further ones are counted. A thread
 * that is in the callback delivers nothing. So the callback is never nested, and may itself use the library. Any
 * thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/after_call.h"
#include "gpumem.h"

#define EVENTS_N_KINDS 8 /* from 1 */

struct events_slot {
        bool told;      /* one was delivered */
        bool waiting;   /* `event` is to be delivered */
        uint64_t at_ns; /* when one was last taken for delivery */
        uint64_t turn;  /* waiting events are delivered in this order */
        uint32_t n_suppressed;
        struct gpumem_event event;
};

struct events {
        pthread_mutex_t lock; /* guards what follows */
        pthread_cond_t idle;  /* no thread is in the callback */
        pthread_cond_t stir;  /* an event was noted, or events_stir was called */
        uint64_t n_stirs;
        uint64_t n_stirs_told; /* when the last wait ended */
        gpumem_event_callback *callback;
        void *argument;
        unsigned n_running;
        uint64_t n_turns;
        _Atomic bool is_news; /* a slot waits; read without the lock too */
        struct after_call *after_call;
        _Atomic uint64_t n_noted[EVENTS_N_KINDS]; /* delivered or not */
        struct events_slot slots[EVENTS_N_KINDS];
};

void events_init(struct events *events, struct after_call *after_call);
void events_deinit(struct events *events);

/* When this returns, no thread runs the previous callback any more. GPUMEM_E_IN_CALLBACK: the caller is in one. */
int events_set(struct events *events, gpumem_event_callback *callback, void *argument);

/* Notes an event if there is no callback: it needs no text then. False: there is one, and nothing is noted. */
bool events_note_unheard(struct events *events, enum gpumem_event_kind kind);

void events_note(struct events *events, const struct gpumem_event *event);

/* Returns after n_ms, or earlier if an event is noted, or if another thread calls events_stir. */
void events_wait(struct events *events, uint32_t n_ms);
void events_stir(struct events *events);

void events_tell_news(struct events *events);

/* Called at the end of a public call, without locks. */
static inline void events_tell(struct events *events)
{
        if (__builtin_expect(atomic_load_explicit(&events->is_news, memory_order_relaxed), false))
                events_tell_news(events);
}

/* Is the calling thread in an event callback? */
bool events_in_callback(void);
