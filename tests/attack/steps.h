/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of the daemon's loop, as it counts them, and those of a bare thread beside them. */
#pragma once

#include <stdint.h>

struct steps {
        uint64_t n, n_late;
};

/* Asks over the admin socket; 0 or an error. */
int steps_read(struct steps *ret_steps);

/* Of a thread that only works for 10 us of each 60, for two seconds: its late steps are the machine's. */
struct steps steps_of_bare_thread(void);
