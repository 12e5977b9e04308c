/* SPDX-License-Identifier: Apache-2.0 */
/* Which refused requests are of memory, which of them are one, and what a pool can give now. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"
#include "proto/messages.h"

/* Memory was refused: for lack of it, by a limit, by the driver or its device, or by the daemon's end. Not a request
 * that was wrong. */
bool oom_is_of_memory(const struct event_row *row);

/* What the pool could give at present to a request that waits a little: what is free, cached or idle. A driver that does
 * not answer makes nothing, and with a lost device nothing is served. Limits of clients and tenants are another
 * matter. */
uint64_t oom_room(const struct stats_row *stats);

/* For one allocation the library asks twice, and may wait between: what came within so long, and was refused for the
 * same reason, is taken for one. */
#define OOM_OF_ONE_MS 2000

/* Joins refusals that are of one: it is the last of them, and `times`, `least` and `most` are of all. Returns how many
 * are left. */
uint32_t oom_join(struct event_row *rows, uint32_t n);
