/* SPDX-License-Identifier: Apache-2.0 */
/* Checks with a short-lived process for each device whether the driver clears memory between its owners
 * (driver/canary.h). The daemon itself has no CUDA context. The process runs this program again, which
 * starts with canary_main. A process of its own fills the memory, so that the next one checks another
 * process's pages. */
#pragma once

#include <stdbool.h>

#define CANARY_DEVICES_MAX 64
#define CANARY_LIMIT_MS    5000

enum canary_outcome {
        CANARY_NOT_RUN,
        CANARY_CLEAN,
        CANARY_DIRTY,  /* another owner's bytes were found */
        CANARY_UNABLE, /* no context, no memory, or not done in CANARY_LIMIT_MS */
};

/* Runs in the process; returns its exit status. Called before the driver is loaded. */
int canary_main(const char *cuda_library, int ordinal);

/* Runs a canary for one device and waits for it; for a thread that may block. Once it is unwanted, the
 * process is killed. */
enum canary_outcome canary_try(const char *cuda_library, int ordinal,
                               bool (*is_wanted)(void *argument), void *argument);

/* Runs a canary for each device at the same time, and waits for all; for the start, before the loop runs.
 * Devices beyond CANARY_DEVICES_MAX have none. */
void canary_run(const char *cuda_library, int n_devices,
                enum canary_outcome ret_outcomes[static CANARY_DEVICES_MAX]);
