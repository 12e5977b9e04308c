/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/driver_state.h"

#include <errno.h>

#include "gpumem.h"

/* DRIVER_STATE_TRY_NS, doubled so many times, at most most_ns. */
static uint64_t doubled(unsigned n_times, uint64_t most_ns)
{
        uint64_t wait_ns = DRIVER_STATE_TRY_NS;

        for (; n_times && wait_ns < most_ns; n_times--)
                wait_ns *= 2;
        return wait_ns;
}

static bool conclude(struct driver_state *driver, uint64_t now_ns)
{
        enum driver_status status = DRIVER_SERVES;

        if (driver->is_lost_by_call || driver->is_lost_by_nvml)
                status = DRIVER_LOST;
        else if (driver->late_since_ns)
                status = DRIVER_STALLED;
        if (status == driver->status)
                return false;
        driver->status = status;
        driver->n_losses += status == DRIVER_LOST;
        /* A hung call is noticed when it is late, but the driver has been silent since it began. */
        driver->since_ns = status == DRIVER_STALLED ? driver->late_since_ns : now_ns;
        return true;
}

bool driver_state_see_call(struct driver_state *driver, uint64_t late_since_ns, uint64_t now_ns)
{
        driver->late_since_ns = late_since_ns;
        return conclude(driver, now_ns);
}

bool driver_state_see_nvml(struct driver_state *driver, bool says_lost, uint64_t now_ns)
{
        driver->is_lost_by_nvml = says_lost;
        return conclude(driver, now_ns);
}

bool driver_state_note_result(struct driver_state *driver, int result, uint64_t now_ns)
{
        if (result == -ENODEV && !driver->is_lost_by_call) {
                driver->is_lost_by_call = true;
                driver->try_ns = now_ns + DRIVER_STATE_TRY_NS;
        } else if (result == 0 || result == GPUMEM_E_DEVICE_FULL) {
                driver->is_lost_by_call = false;
        }
        return conclude(driver, now_ns);
}

bool driver_state_note_release(struct driver_state *driver, uint64_t n_losses, int result,
                               uint64_t now_ns)
{
        /* A successful release does not show that the device works. */
        if (result != -ENODEV || n_losses != driver->n_losses)
                return false;
        return driver_state_note_result(driver, result, now_ns);
}

uint64_t driver_state_next_release(const struct driver_state *driver, uint64_t n_losses,
                                   unsigned n_failures, uint64_t now_ns)
{
        bool is_old = n_losses != driver->n_losses;

        return now_ns +
               doubled(n_failures - 1, is_old ? DRIVER_STATE_RETRY_OLD_NS : DRIVER_STATE_RETRY_NS);
}

bool driver_state_take_try(struct driver_state *driver, unsigned n_kept, uint64_t now_ns)
{
        if (!driver->is_lost_by_call || now_ns < driver->try_ns)
                return false;
        driver->try_ns = now_ns + doubled(n_kept, DRIVER_STATE_RETRY_OLD_NS);
        return true;
}
