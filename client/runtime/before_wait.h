/* SPDX-License-Identifier: Apache-2.0 */
/* What the calling thread does before the library may wait for memory, the daemon or GPU work. An adapter sets it where
 * its caller holds a lock that other threads need, such as Python's. Each thread has its own. */
#pragma once

struct before_wait {
        void (*begin)(struct before_wait *before); /* called once at most */
};

/* For the calls that this thread makes until it is unset by NULL. `before` is the caller's. */
void before_wait_set(struct before_wait *before);

/* The call may wait from here on. */
void before_wait_begin(void);
