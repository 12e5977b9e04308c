/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of the pools' devices, and what the daemon makes of it. On the loop; the asking is
 * done by watches (daemon/backing/device/watch.h).
 *
 * Where a device is in error no new blocks are made, until it recovers; leases go on, and so
 * does the cache. A create that the driver had no memory for is held until NVML has said who has it,
 * so that a refusal can: not for long, since NVML may hang. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"
#include "proto/proto.h"

/* Starts the watches. `library` is NVML's name; a pool without a watch has unknown figures. `canary_library`: see
 * server_options. */
int device_watch_open(struct server *server, const char *library, const char *canary_library);

/* Releases what is held, and holds nothing more. */
void device_watch_stop(struct server *server);
void device_watch_free(struct server *server);

/* Keeps a create that failed for device_watch_take_answered(), soon; false: it is not kept. */
bool device_watch_hold(struct server *server, uint32_t pool, struct job *job);

/* One that is held no more, the first to come first; NULL: there is none. */
struct job *device_watch_take_answered(struct server_pool *pool);

/* No new blocks are made there. */
bool device_watch_is_barred(const struct server_pool *pool);

/* Its memory keeps its bytes: from now on one tenant only is served there. */
void device_watch_mark_dirty(struct server *server, struct server_pool *pool);

/* Whether the tenant may have memory there, which is its from then on if there can be one tenant only. */
bool device_watch_admits(struct server *server, uint32_t pool, const struct tenant_key *tenant);

/* The figures of a pool's device, with all that the pool has reserved of it. */
void device_watch_fill(const struct server_pool *pool, uint64_t reserved, struct stats_row *row);

/* For a refusal, "" if nothing is known, or nobody else holds anything: how much is free there, what
 * others hold, and of the processes that the asker may know the largest. */
#define DEVICE_WATCH_TEXT_MAX 160
struct session;
void device_watch_format_others(const struct session *asker, uint32_t pool, uint64_t reserved,
                                char ret_text[static DEVICE_WATCH_TEXT_MAX]);
