/* SPDX-License-Identifier: Apache-2.0 */
/* How long an allocation goes on without a daemon: as long as its caller was ready to wait for memory.
 *
 * One who was ready to wait tries again and again to reach the next daemon, and sleeps in between,
 * holding nothing: threads that do not wait are told at once that there is none. Belongs to one call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection/reconnect.h"

struct retry {
        uint64_t deadline_ms; /* 0: no waiting */
        uint32_t pause_ms;
};

struct retry retry_begin(uint32_t wait_ms);

/* After a try that had this result: is there to be another? It may then wait for what is left of the
 * time. Returns after a pause, or when somebody has connected anew. */
bool retry_goes_on(struct retry *retry, struct reconnector *reconnector, int result,
                   uint32_t *wait_ms);
