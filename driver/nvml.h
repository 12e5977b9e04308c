/* SPDX-License-Identifier: Apache-2.0 */
/* NVML as a table of function pointers, filled by dlopen: what the daemon must know about a device and cannot learn
 * from the CUDA driver without a context. It is optional: without the library, or without a function in it, the
 * values that it would give are unknown, and everything else works.
 *
 * The calls may block for as long as the driver does: only threads that may wait call them. A table never changes
 * once loaded, may be used by any thread, and is never unloaded. */
#pragma once

#include <stdint.h>

#include "driver/abi/nvml.h"
#include "driver/device.h"

#define NVML_LIBRARY_DEFAULT "libnvidia-ml.so.1"

/* The longest reason of nvml_load. */
#define NVML_REASON_MAX 512

/* A value that is not known. */
#define NVML_UNKNOWN UINT64_MAX

/* Of more processes the largest are listed. */
#define NVML_PROCESSES_MAX 64

struct nvml {
#define NVML_REQUIRED(call) __typeof__(call) *call;
#define NVML_OPTIONAL(call) __typeof__(call) *call;
#include "driver/nvml.def"
#undef NVML_REQUIRED
#undef NVML_OPTIONAL
};

enum nvml_health {
        NVML_HEALTH_UNKNOWN, /* NVML could not be asked */
        NVML_WELL,
        NVML_WORN,        /* works, but should be drained and reset, or replaced */
        NVML_NEEDS_RESET, /* from here on the device does not work */
        NVML_NEEDS_REBOOT,
        NVML_LOST, /* it no longer answers */
};

struct nvml_process {
        uint32_t pid;     /* in the host's pid namespace */
        uint64_t n_bytes; /* NVML_UNKNOWN: the driver does not tell */
};

/* The state of one device at one time. */
struct nvml_report {
        enum nvml_health health;
        uint64_t n_total_bytes; /* these three are NVML_UNKNOWN together */
        uint64_t n_used_bytes;  /* by all processes, and by the driver itself */
        uint64_t n_free_bytes;
        uint64_t n_uncorrected; /* memory errors since the driver was loaded; or NVML_UNKNOWN */
        uint64_t mig;           /* 0 off, 1 on, or NVML_UNKNOWN */
        uint64_t n_xids;        /* errors that NVML has reported; or NVML_UNKNOWN */
        uint64_t last_xid;      /* the number of the last one, 0: there was none; or NVML_UNKNOWN */
        unsigned n_processes;   /* listed below */
        struct nvml_process processes[NVML_PROCESSES_MAX];
};

/* The library that nvml_load would try: `library`, or if that is NULL the one that GPUMEM_NVML_LIBRARY names; next to
 * an emulated CUDA driver the emulated NVML there; or libnvidia-ml.so.1. `room` holds the text if it must be made. */
#define NVML_LIBRARY_MAX 4096
const char *nvml_library_name(const char *library, const char *cuda_library,
                              char room[static NVML_LIBRARY_MAX]);

/* Loads the library of that name and initialises it. GPUMEM_E_NO_DRIVER: it is missing, cannot be used, or lacks a
 * function that is required; `ret_reason` tells which in one sentence. */
int nvml_load(const char *name, struct nvml *ret_nvml, char ret_reason[static NVML_REASON_MAX]);

/* NVML's handles of a CUDA device. Of a MIG instance NVML tells memory and processes. The rest it tells of the GPU alone that
 * is cut into instances: errors and the mode. Where it does not name that GPU, both are the instance's. */
struct nvml_device {
        nvmlDevice_t device;
        nvmlDevice_t whole; /* the device itself, if it is no instance */
};

/* GPUMEM_E_NO_POOL: NVML knows no GPU and no MIG instance with this UUID; or a fault. */
int nvml_find(const struct nvml *nvml, const uint8_t uuid[static DEVICE_UUID_BYTES],
              struct nvml_device *ret_device);

/* The device's present state; values that NVML does not tell are unknown. */
void nvml_look(const struct nvml *nvml, const struct nvml_device *device,
               struct nvml_report *ret_report);

/* Errors of a device (XIDs), each of which NVML reports once. */
struct nvml_events {
        nvmlEventSet_t set; /* NULL: NVML reports none */
        uint64_t n_xids, last_xid;
};

/* Begins to receive errors. One thread. */
void nvml_events_open(const struct nvml *nvml, const struct nvml_device *device,
                      struct nvml_events *ret_events);
void nvml_events_close(const struct nvml *nvml, struct nvml_events *events);

/* Adds the errors that have come to the report, without waiting. */
void nvml_events_take(const struct nvml *nvml, struct nvml_events *events,
                      struct nvml_report *report);

/* A report whose values are all unknown. Reports can be compared byte by byte. */
void nvml_report_init(struct nvml_report *report);

/* Is the device in error, so that it can give no memory? */
static inline int nvml_health_is_error(enum nvml_health health)
{
        return health >= NVML_NEEDS_RESET;
}

/* The state after another look: an error lasts until NVML says otherwise, since a device that no longer answers says
 * nothing. */
static inline enum nvml_health nvml_health_after(enum nvml_health before, enum nvml_health seen)
{
        return seen == NVML_HEALTH_UNKNOWN && nvml_health_is_error(before) ? before : seen;
}

/* Was it in error, and is it no longer? */
static inline int nvml_health_is_recovery(enum nvml_health before, enum nvml_health after)
{
        return nvml_health_is_error(before) && !nvml_health_is_error(after);
}
