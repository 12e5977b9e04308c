/* SPDX-License-Identifier: Apache-2.0 */
/* What every part of the emulated driver stands on: the state of the process, the way into a call, and the lock of the
 * tables.
 *
 * cu... functions have no handle of their library, so the emulator is one object per process: cuInit makes it, and it
 * lives as long as the process. One lock guards all tables (handles, contexts, addresses, registrations); a stream's
 * queue has its own, which is taken inside it. No lock is held while bytes are copied or a store is asked. A forked
 * child has no emulator: every call gives it CUDA_ERROR_NOT_INITIALIZED, as the real driver does. What its parent's
 * death leaves to it is in afterlife.h. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/directory.h"
#include "driver/emulator/machine/fault.h"

/* The calls of the driver, and nothing else, can be seen from outside. */
#define EMULATOR_API __attribute__((visibility("default")))

/* As CUDA counts: 1000 for the first number, 10 for the second. */
#define DRIVER_VERSION 13000

/* Granularity of the virtual memory interface, and what cuMemAlloc rounds up to. */
#define EMULATOR_GRANULE UINT64_C(2097152)

/* For what the hottest calls read of a thread: found without a call, in the little room that there is for libraries
 * loaded late. */
#define EMULATOR_HOT_TLS __attribute__((tls_model("initial-exec")))

struct emulator {
        struct config config;
        struct directory directory;
        unsigned n_devices; /* as this process sees them */
        unsigned physical[CONFIG_DEVICES_MAX];
};

/* Every call but cuInit and the pure ones begins with one of these and its name; anything but CUDA_SUCCESS is the
 * call's result. Faults that were asked for come about here. */
CUresult emulator_enter(const char *call);
CUresult emulator_enter_delayed(const char *call);

/* The kernel zeroes this page in a forked child, which so knows that it is one. */
struct life {
        uint32_t initialised;
};

extern struct life *emulator_life; /* set once, by the first cuInit that ended; atomic */

/* Whether this process may use the emulator: not before cuInit, not in a forked child. */
static inline bool emulator_is_live(void)
{
        const struct life *life = __atomic_load_n(&emulator_life, __ATOMIC_ACQUIRE);

        return life && life->initialised;
}

/* The calling thread runs a host function of a stream from now on, or no longer: no driver call is allowed there. */
enum emulator_callback { EMULATOR_NO_CALLBACK, EMULATOR_IN_CALLBACK };
extern _Thread_local EMULATOR_HOT_TLS enum emulator_callback emulator_callback;
void emulator_mark_callback(enum emulator_callback callback);

/* The way in that takes no look at the file of faults. */
CUresult emulator_enter_hindered(const char *call);

/* Nothing is in the way. */
static inline bool emulator_is_clear(void)
{
        return emulator_is_live() && emulator_callback == EMULATOR_NO_CALLBACK && !fault_is_armed();
}

static inline CUresult emulator_enter_hot(const char *call)
{
        return __builtin_expect(emulator_is_clear(), 1) ? CUDA_SUCCESS
                                                        : emulator_enter_hindered(call);
}

/* Only after emulator_enter. */
struct emulator *emulator_get(void);
struct store *emulator_store(unsigned device);

/* Whether the one device reaches the other's memory; both are this process's. One reaches its own. */
bool emulator_reaches(unsigned device, unsigned other);

void emulator_lock(void);
void emulator_unlock(void);

/* Whether it was had in that time. */
bool emulator_lock_within(uint64_t n_us);

/* A detached thread of the driver's own, which gets no signals. -ENOMEM and the like. */
int emulator_start_thread(void *(*function)(void *argument), void *argument);

/* What a fault of base or store is to a caller of the driver. */
CUresult emulator_result(int r);

/* Ends the process, which did what CUDA does not define, and what a driver may crash at. */
__attribute__((noreturn)) void emulator_end(const char *what);
