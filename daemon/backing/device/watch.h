/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of one device, from a thread of its own: NVML may block for as long as the driver
 * does, and then nothing but its figures is late.
 *
 * A device that was in error and is not any more is reported well only after a canary (canary.h) has tried
 * whether its driver clears memory.
 *
 * The thread looks every WATCH_INTERVAL_MS, and when asked to. It calls `wake` when there is something
 * new: another report than the last, or an answer. All other functions are for the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backing/device/canary.h"
#include "driver/nvml.h"

#define WATCH_INTERVAL_MS 1000

struct watch;

struct watch_report {
        struct nvml_report nvml;
        enum canary_outcome canary; /* of the last try after a recovery */
        uint64_t n_answered;        /* the highest watch_ask that this is an answer to */
};

struct watched {
        uint8_t uuid[DEVICE_UUID_BYTES];
        int ordinal;
        const char *cuda_library; /* the canary's, lasts as long as the watch; NULL: none is run */
        void (*wake)(void *argument);
        void *wake_argument;
};

/* Starts the thread, which loads the library of that name: copied. Without the library all reports
 * say that nothing is known, and the log says once why. */
int watch_new(const char *library, const struct watched *watched, struct watch **ret_watch);

/* Ends the thread. One that hangs in NVML is left behind (abandoned_workers.h), and the watch with it. NULL is legal;
 * returns NULL. */
struct watch *watch_free(struct watch *watch);

/* A report is wanted that begins after this call; its number. */
uint64_t watch_ask(struct watch *watch);

/* The last report. */
void watch_read(struct watch *watch, struct watch_report *ret_report);
