/* SPDX-License-Identifier: Apache-2.0 */
/* The base of the emulated driver: the state of the process, the entry of a call, and the lock of the tables.
 *
 * cu... functions have no handle of their library, so the emulator is one object for each process: cuInit makes it,
 * and it lives as long as the process. One lock guards all tables (handles, contexts, addresses, registrations); a
 * stream's queue has its own, which is taken inside it. No lock is held while bytes are copied or a store is used. A
 * forked child has no emulator: every call returns CUDA_ERROR_NOT_INITIALIZED, as with the real driver. The
 * work that goes on in a child when its parent dies is in driver/emulator/stream/orphaned_work.h. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/directory.h"
#include "driver/emulator/machine/fault.h"

/* Only the calls of the driver are exported. */
#define EMULATOR_API __attribute__((visibility("default")))

/* As CUDA counts: 1000 for the first number, 10 for the second. */
#define DRIVER_VERSION 13000

/* Granularity of the virtual memory interface, and what cuMemAlloc rounds up to. */
#define EMULATOR_GRANULE UINT64_C(2097152)

/* For thread-local data of the hottest calls: read without a call, from the little room that there is for libraries
 * loaded late. */
#define EMULATOR_HOT_TLS __attribute__((tls_model("initial-exec")))

struct emulator {
        struct config config;
        struct directory directory;
        unsigned n_devices; /* as this process sees them */
        unsigned physical[CONFIG_DEVICES_MAX];
};

/* Every call except cuInit and the pure ones begins with one of these, with its name. If the result is not
 * CUDA_SUCCESS, it is the call's. Requested faults occur here. */
CUresult emulator_enter(const char *call);
CUresult emulator_enter_delayed(const char *call);
CUresult emulator_enter_for(const char *call, CUdevice device); /* and checks the device */

/* The kernel zeroes this page in a forked child, which thereby knows that it is one. */
struct life {
        uint32_t initialised;
};

extern struct life *emulator_life; /* set once, by the first cuInit that ended; atomic */

/* May this process use the emulator? Not before cuInit, and not in a forked child. */
static inline bool emulator_is_live(void)
{
        const struct life *life = __atomic_load_n(&emulator_life, __ATOMIC_ACQUIRE);

        return life && life->initialised;
}

/* The calling thread begins or ends a host function of a stream: no driver call is allowed there. */
enum emulator_callback { EMULATOR_NO_CALLBACK, EMULATOR_IN_CALLBACK };
extern _Thread_local EMULATOR_HOT_TLS enum emulator_callback emulator_callback;
void emulator_mark_callback(enum emulator_callback callback);

/* The entry that does not read the file of faults. */
CUresult emulator_enter_hindered(const char *call);

/* May a call go on without further checks? */
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

/* Can the one device access the other's memory? Both are this process's. A device can access its own. */
bool emulator_reaches(unsigned device, unsigned other);

void emulator_lock(void);
void emulator_unlock(void);

/* Takes the lock; false: not within that time. */
bool emulator_lock_within(uint64_t n_us);

/* Starts a detached thread of the driver, which gets no signals. -ENOMEM and the like. */
int emulator_start_thread(void *(*function)(void *argument), void *argument);

/* Translates an error of base or store for a caller of the driver. */
CUresult emulator_result(int r);

/* Ends the process, which did something that CUDA does not define and at which a driver may crash. */
__attribute__((noreturn)) void emulator_end(const char *what);
