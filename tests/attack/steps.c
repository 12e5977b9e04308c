/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/steps.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/scheduler/scheduler.h"
#include "gpumem.h"
#include "tests/flood/peer.h"

int steps_read(struct steps *ret_steps)
{
        CLEANUP(closep)
        int fd = peer_connect_admin();
        struct frame request = FRAME_NULL, reply;
        int r = fd < 0 ? GPUMEM_E_DISCONNECTED : peer_hello(fd);

        if (!r)
                r = peer_call(fd, &request, MESSAGE_LOOP, MESSAGE_LOOP_IS, &reply);
        if (r)
                return r;
        *ret_steps = (struct steps){.n = reply.loop_is.steps,
                                    .n_late = reply.loop_is.late_steps,
                                    .longest_ns = reply.loop_is.longest_step};
        return 0;
}

#define BARE_NS (4 * NS_PER_S)
#define WORK_NS 10000

struct steps steps_of_bare_thread(void)
{
        uint64_t end_ns = clock_now_ns() + BARE_NS, from_ns = clock_now_ns();
        struct steps steps = {.n = 0};

        while (from_ns < end_ns) {
                uint64_t cpu_ns = clock_thread_cpu_ns(), ns;

                while (clock_now_ns() - from_ns < WORK_NS)
                        continue;
                ns = clock_thread_cpu_ns() - cpu_ns;
                steps.n++;
                steps.n_late += ns > SCHEDULER_LATE_NS;
                if (ns > steps.longest_ns)
                        steps.longest_ns = ns;
                from_ns = clock_now_ns();
        }
        return steps;
}
