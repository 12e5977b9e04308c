/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a pool's driver answers: what signs there are of it, and what follows from them. Pure.
 *
 * A call that takes too long makes a pool stalled, until it returns. A call that says that the device is
 * lost, or NVML, makes it lost, until a call succeeds and NVML says nothing of the kind; meanwhile the
 * driver is tried at intervals. Lost goes before stalled. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

#define DRIVER_STATE_TRY_NS UINT64_C(1000000000)

/* The longest that memory waits which the driver does not take back, until it is tried again; and what was
 * made before the device was lost, which the driver may never take back. */
#define DRIVER_STATE_RETRY_NS     (4 * DRIVER_STATE_TRY_NS)
#define DRIVER_STATE_RETRY_OLD_NS (64 * DRIVER_STATE_TRY_NS)

struct driver_state {
        enum driver_status status;
        uint64_t since_ns;
        bool hangs;
        bool is_lost_by_call;
        bool is_lost_by_nvml;
        uint64_t try_ns;   /* when the driver is tried next; while a call says lost */
        uint64_t n_losses; /* times that the device became lost */
};

/* What is known now. Each returns whether the state has changed by it. */
bool driver_state_see_call(struct driver_state *driver, bool hangs, uint64_t now_ns);
bool driver_state_see_nvml(struct driver_state *driver, bool says_lost, uint64_t now_ns);

/* What a job's driver calls came to: 0, GPUMEM_E_DEVICE_FULL, -ENODEV for a lost device, or another
 * failure, which says nothing of it. */
bool driver_state_note_result(struct driver_state *driver, int result, uint64_t now_ns);

/* The same for the release of memory that was ordered after so many losses. Of what there was before the
 * last one a driver may say forever that its device is lost, so that this says nothing. */
bool driver_state_note_release(struct driver_state *driver, uint64_t n_losses, int result,
                               uint64_t now_ns);

/* When such memory is to be released once more, which has failed so many times, the last time now. The
 * times between double, up to what is said above. */
uint64_t driver_state_next_release(const struct driver_state *driver, uint64_t n_losses,
                                   unsigned n_failures, uint64_t now_ns);

/* Whether the driver is to be tried now; the next time is an interval later. It is twice as long for each
 * trial whose memory the driver has not taken back. */
bool driver_state_take_try(struct driver_state *driver, unsigned n_kept, uint64_t now_ns);
