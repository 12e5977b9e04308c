/* SPDX-License-Identifier: Apache-2.0 */
/* Read before daemon/server/scheduler/scheduler.c, for bench/time_accounting.c: a scheduler that measures no time and charges no
 * payer. Each look at a clock finds that the time of a usual step has passed, so turns of the loop stay as long. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "daemon/fairness/next_payer.h"

#define NO_CLOCK_STEP_NS UINT64_C(4000)

static inline uint64_t untimed_ns(void)
{
        static uint64_t ns;

        return ns += NO_CLOCK_STEP_NS;
}

#define clock_now_ns                    untimed_ns
#define clock_thread_cpu_ns             untimed_ns
#define uv_loop_configure(loop, option) 0
#define uv_metrics_idle_time(loop)      UINT64_C(0)
#define payer_charge(payer, n_ns)       ((void)(payer), (void)(n_ns))
#define payer_end_step(payer, n_ns)     ((payer_end_step)((payer), 0))
