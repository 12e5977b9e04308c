/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/loop_time.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

static int counter = -1;

/* /proc/PID/task/TID/schedstat is as old as the last tick, up to 4 ms; this counter is exact. */
int loop_time_open(pid_t daemon)
{
        struct perf_event_attr wanted = {.type = PERF_TYPE_SOFTWARE,
                                         .size = sizeof(wanted),
                                         .config = PERF_COUNT_SW_TASK_CLOCK};

        counter = (int)syscall(SYS_perf_event_open, &wanted, daemon, -1, -1, 0);
        return counter < 0 ? err_errno() : 0;
}

void loop_time_close(void)
{
        closep(&counter);
}

uint64_t loop_time_ns(void)
{
        uint64_t ns = 0;

        return read(counter, &ns, sizeof(ns)) == (ssize_t)sizeof(ns) ? ns : 0;
}
