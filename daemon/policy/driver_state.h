/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a pool's driver answers, from the signs of its calls. Pure.
 *
 * A call that takes too long makes the pool stalled, until it returns. A call or NVML that reports a lost
 * device makes the pool lost, until a call succeeds and NVML reports no loss. Meanwhile the driver is tried
 * at intervals. Lost takes precedence over stalled. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

#define DRIVER_STATE_TRY_NS UINT64_C(1000000000)

/* The longest intervals between release attempts for memory that the driver does not take back. Memory from
 * before a loss may never be taken back, so its interval is longer. */
#define DRIVER_STATE_RETRY_NS     (4 * DRIVER_STATE_TRY_NS)
#define DRIVER_STATE_RETRY_OLD_NS (64 * DRIVER_STATE_TRY_NS)

struct driver_state {
        enum driver_status status;
        uint64_t since_ns;
        uint64_t late_since_ns; /* when the call began that takes too long; 0: none does */
        bool is_lost_by_call;
        bool is_lost_by_nvml;
        uint64_t try_ns;   /* when the driver is tried next, while a call reported the loss */
        uint64_t n_losses; /* how often the device became lost */
};

/* Each notes one sign and returns whether the state has changed. */
bool driver_state_see_call(struct driver_state *driver, uint64_t late_since_ns, uint64_t now_ns);
bool driver_state_see_nvml(struct driver_state *driver, bool says_lost, uint64_t now_ns);

/* Notes the result of a job's driver calls: 0, GPUMEM_E_DEVICE_FULL, -ENODEV for a lost device. Another
 * failure tells nothing. */
bool driver_state_note_result(struct driver_state *driver, int result, uint64_t now_ns);

/* The same for a release of memory that was ordered after so many losses. A driver may report older memory
 * as lost for ever, so its results tell nothing. */
bool driver_state_note_release(struct driver_state *driver, uint64_t n_losses, int result,
                               uint64_t now_ns);

/* When to retry a release that has failed so many times, now for the last time. The intervals double, up to
 * the limits above. */
uint64_t driver_state_next_release(const struct driver_state *driver, uint64_t n_losses,
                                   unsigned n_failures, uint64_t now_ns);

/* Whether to try the driver now; the next time is an interval later. The interval doubles with each trial
 * whose memory the driver has not taken back. */
bool driver_state_take_try(struct driver_state *driver, unsigned n_kept, uint64_t now_ns);
