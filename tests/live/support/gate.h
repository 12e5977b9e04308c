/* SPDX-License-Identifier: Apache-2.0 */
/* Holds streams back until it is opened: their work waits for a number in registered memory. A context must
 * be current. Failures end the test. */
#pragma once

#include <cuda.h>
#include <stdatomic.h>
#include <stdint.h>

#include "driver/cuda.h"

/* From <cuda.h>, of any version. */
typedef __typeof__(cuStreamWaitValue64) gate_wait;

struct gate {
        const struct cuda *cuda;
        gate_wait *wait;
        _Atomic uint64_t *word;
        uint64_t n_held;
};

void gate_init(struct gate *gate, const struct cuda *cuda);
void gate_deinit(struct gate *gate);

/* Work that is enqueued there from now on waits. */
void gate_hold(struct gate *gate, void *stream);

/* Opens the gate: all held work goes on. */
void gate_open(struct gate *gate);
