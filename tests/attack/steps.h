/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of the daemon's loop, as it counts them, and those of a bare thread beside them. */
#pragma once

#include <stdint.h>

struct steps {
        uint64_t n, n_late;
        uint64_t longest_ns; /* since the daemon's start */
};

/* Asks over the admin socket; 0 or an error. */
int steps_read(struct steps *ret_steps);

/* Of a thread that only works, 10 us a step, for four seconds: its late steps are the machine's, which also counts as the
 * thread's time what a hypervisor takes. */
struct steps steps_of_bare_thread(void);
