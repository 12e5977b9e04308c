/* SPDX-License-Identifier: Apache-2.0 */
/* Retries an allocation while there is no daemon, for as long as its caller allows it to wait for memory.
 *
 * A call that may wait tries again and again to reach the next daemon, and sleeps in between, holding nothing. A call
 * that may not wait fails at once. A struct retry belongs to one call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection/reconnect.h"

struct retry {
        uint64_t deadline_ms; /* 0: no waiting */
        uint32_t pause_ms;
};

struct retry retry_begin(uint32_t wait_ms);

/* Decides after a try with this result whether to try again. If so, returns after a pause, or as soon as a thread has
 * connected again. The next try may wait for wait_ms, the rest of the time. */
bool retry_goes_on(struct retry *retry, struct reconnector *reconnector, int result,
                   uint32_t *wait_ms);
