/* SPDX-License-Identifier: Apache-2.0 */
/* A short-lived process for each device tries whether memory comes back without its last owner's bytes
 * (driver/canary.h): the daemon itself has no context to look with. It is this program again, which
 * starts with canary_main; a process of its own fills, so that the next one looks at another's. */
#pragma once

#include <stdbool.h>

#define CANARY_DEVICES_MAX 64
#define CANARY_LIMIT_MS    5000

enum canary_outcome {
        CANARY_NOT_RUN,
        CANARY_CLEAN,
        CANARY_DIRTY,  /* another's bytes were found */
        CANARY_UNABLE, /* no context, no memory, or no end in CANARY_LIMIT_MS */
};

/* In the process: its exit status. Before the driver is loaded. */
int canary_main(const char *cuda_library, int ordinal);

/* Runs one for a device, in a thread that may wait; one that is not wanted any more is killed. */
enum canary_outcome canary_try(const char *cuda_library, int ordinal,
                               bool (*is_wanted)(void *argument), void *argument);

/* Runs one for each device, all at once, and waits for them; for a start, before there is a loop. Those
 * beyond CANARY_DEVICES_MAX are not run. */
void canary_run(const char *cuda_library, int n_devices,
                enum canary_outcome ret_outcomes[static CANARY_DEVICES_MAX]);
