/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/capture_gate.h"

/* A thread that waits to close the gate keeps others out, so that threads that free without end cannot hold it up. */
void capture_gate_init(struct capture_gate *gate)
{
        pthread_rwlockattr_t attributes;

        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(&gate->inside, &attributes);
        pthread_rwlockattr_destroy(&attributes);
        atomic_init(&gate->n_announced, 0);
}

void capture_gate_deinit(struct capture_gate *gate)
{
        pthread_rwlock_destroy(&gate->inside);
}

void capture_gate_close(struct capture_gate *gate)
{
        pthread_rwlock_wrlock(&gate->inside);
        atomic_fetch_add(&gate->n_announced, 1);
        pthread_rwlock_unlock(&gate->inside);
}

bool capture_gate_open(struct capture_gate *gate)
{
        bool was_closed;

        pthread_rwlock_wrlock(&gate->inside);
        was_closed = capture_gate_is_closed(gate);
        if (was_closed)
                atomic_fetch_sub(&gate->n_announced, 1);
        pthread_rwlock_unlock(&gate->inside);
        return was_closed;
}

bool capture_gate_enter(struct capture_gate *gate)
{
        if (pthread_rwlock_tryrdlock(&gate->inside))
                return false;
        if (!capture_gate_is_closed(gate))
                return true;
        pthread_rwlock_unlock(&gate->inside);
        return false;
}

void capture_gate_leave(struct capture_gate *gate)
{
        pthread_rwlock_unlock(&gate->inside);
}
