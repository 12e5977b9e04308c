/* SPDX-License-Identifier: Apache-2.0 */
/* Watches one device through NVML on a thread of its own. NVML may block as long as the driver does; then
 * only the device's statistics are late.
 *
 * A device that recovers from an error is reported healthy only after a canary (canary.h) has checked
 * whether its driver clears memory.
 *
 * The thread looks every WATCH_INTERVAL_MS, and when asked to. It calls `wake` if the report differs from
 * the last one, or answers a question. Where some memory is to stay free, it looks every WATCH_FLOOR_INTERVAL_MS, and
 * calls `wake` each time less is. All other functions are for the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backing/device/canary.h"
#include "daemon/identity/process_lookup.h"
#include "driver/nvml.h"

#define WATCH_INTERVAL_MS       1000
#define WATCH_FLOOR_INTERVAL_MS 200

struct watch;

struct watch_report {
        struct nvml_report nvml;
        struct process_facts
                processes[NVML_PROCESSES_MAX]; /* of nvml.processes, at the same places */
        enum canary_outcome canary;            /* of the last check after a recovery */
        uint64_t n_looks;                      /* NVML was asked so often */
        uint64_t n_answered;                   /* the latest watch_ask that this report answers */
};

struct watched {
        uint8_t uuid[DEVICE_UUID_BYTES];
        int ordinal;
        const char *cuda_library; /* for the canary, must outlive the watch; NULL: no canary */
        void (*wake)(void *argument);
        void *wake_argument;
};

/* Starts the thread, which loads the library of that name (copied). Without the library all reports are
 * empty, and one log line says why. */
int watch_new(const char *library, const struct watched *watched, struct watch **ret_watch);

/* Ends the thread. A thread that hangs in NVML is abandoned together with the watch (abandoned_threads.h).
 * NULL is legal; returns NULL. */
struct watch *watch_free(struct watch *watch);

/* Asks for a report that begins after this call; returns the question's number. */
uint64_t watch_ask(struct watch *watch);

/* How much of the device's memory is to stay free; 0, as at first: none. */
void watch_set_floor(struct watch *watch, uint64_t n_bytes);

/* The last report. */
void watch_read(struct watch *watch, struct watch_report *ret_report);
