/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's call to the loop. uv_async_send does the same, but a loop that wakes before that call is over spins until it
 * is: the thread, which the loop may just have preempted, needs a CPU first. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

struct wake {
        uv_poll_t poll; /* closed by its owner, before wake_deinit */
        int fd;         /* an eventfd */
        atomic_bool is_sent;
        void (*on_wake)(struct wake *wake);
};

/* A wake that is not open; wake_deinit is legal for it. */
#define WAKE_NULL ((struct wake){.fd = -1})

/* on_wake is called on the loop, once or more after each wake_send, and finds what was done before that. */
int wake_open(struct wake *wake, uv_loop_t *loop, void (*on_wake)(struct wake *wake));

/* Any thread, until wake_deinit. */
void wake_send(struct wake *wake);

void wake_deinit(struct wake *wake);
