/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/retry.h"

#include "base/clock.h"
#include "gpumem.h"

/* A daemon that restarts is away for some tenths of a second. */
#define PAUSE_FIRST_MS 2
#define PAUSE_MAX_MS   100

static uint32_t ms_left(const struct retry *retry)
{
        uint64_t at_ms = clock_now_ms();

        return at_ms < retry->deadline_ms ? (uint32_t)(retry->deadline_ms - at_ms) : 0;
}

struct retry retry_begin(uint32_t wait_ms)
{
        return (struct retry){.deadline_ms = wait_ms ? clock_now_ms() + wait_ms : 0,
                              .pause_ms = PAUSE_FIRST_MS};
}

static uint32_t next_pause(struct retry *retry)
{
        uint32_t pause_ms = retry->pause_ms;

        retry->pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
        return pause_ms;
}

bool retry_goes_on(struct retry *retry, struct reconnector *reconnector, int result,
                   uint32_t *wait_ms)
{
        uint32_t left_ms, pause_ms;

        if (result != GPUMEM_E_DISCONNECTED || !retry->deadline_ms)
                return false;
        left_ms = ms_left(retry);
        if (!left_ms)
                return false;
        /* Delivers the event of the loss while it lasts. */
        events_tell(reconnector->events);
        pause_ms = next_pause(retry);
        reconnect_pause(reconnector, pause_ms < left_ms ? pause_ms : left_ms);
        left_ms = ms_left(retry);
        /* The last try, too, must be one that may wait. */
        *wait_ms = left_ms ? left_ms : 1;
        return true;
}
