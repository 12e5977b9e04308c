/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of the daemon's loop, as it counts them. */
#pragma once

#include <stdint.h>

struct steps {
        uint64_t n, n_late;
};

/* Asks over the admin socket; 0 or an error. */
int steps_read(struct steps *ret_steps);
