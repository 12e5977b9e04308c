/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps marks away from captures that the program announces (gpumem_before_capture).
 *
 * The driver's calls that begin and end a capture in a stream are not safe against work that another thread enqueues
 * in that stream at the moment: the process ends with SIGSEGV. To ask first whether the stream captures does not help,
 * since the capture may begin in between. So a thread is inside while it records a mark, and none may enter while a
 * capture is announced.
 *
 * Any thread. A thread that is inside may take locks, since none that has a lock waits for the gate. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct capture_gate {
        pthread_rwlock_t inside;
        _Atomic uint32_t n_announced; /* changed with the lock for writing */
};

void capture_gate_init(struct capture_gate *gate);
void capture_gate_deinit(struct capture_gate *gate);

/* Waits until no thread is inside. */
void capture_gate_close(struct capture_gate *gate);

/* False: it was not closed. */
bool capture_gate_open(struct capture_gate *gate);

/* Is a capture announced? It may have changed already. */
static inline bool capture_gate_is_closed(const struct capture_gate *gate)
{
        return atomic_load_explicit(&gate->n_announced, memory_order_relaxed) != 0;
}

/* False: a capture is announced, or about to be. Does not wait. */
bool capture_gate_enter(struct capture_gate *gate);
void capture_gate_leave(struct capture_gate *gate);
