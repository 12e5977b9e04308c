/* What NVML says of the pools' devices, and what the daemon makes of it. On the loop; the asking is
 * done by watches (daemon/backing/device/watch.h).
 *
 * Where a device is in error no new blocks are made, until it is well again; leases go on, and so
 * does the cache. A create that the driver had no memory for is held until NVML has said who has it,
 * so that a refusal can: not for long, since NVML may hang. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"
#include "proto/proto.h"

/* Starts the watches. `library` is NVML's name; a pool without a watch has unknown figures. `canary_library`: see
 * server_options. */
int devices_open(struct server *server, const char *library, const char *canary_library);

/* Lets go of what is held, and holds nothing more. */
void devices_stop(struct server *server);
void devices_free(struct server *server);

/* Keeps a create that failed for devices_take_answered(), soon; false: it is not kept. */
bool devices_hold(struct server *server, uint32_t pool, struct job *job);

/* One that is held no more, the first to come first; NULL: there is none. */
struct job *devices_take_answered(struct server_pool *pool);

/* No new blocks are made there. */
bool devices_is_barred(const struct server_pool *pool);

/* Its memory keeps its bytes: from now on one tenant only is served there. */
void devices_find_dirty(struct server *server, struct server_pool *pool);

/* Whether the tenant may have memory there, which is its from then on if there can be one tenant only. */
bool devices_admit(struct server *server, uint32_t pool, const struct tenant_key *tenant);

/* The figures of a pool's device, with all that the pool has reserved of it. */
void devices_fill(const struct server_pool *pool, uint64_t reserved, struct stats_row *row);

/* For a refusal, "" if nothing is known, or nobody else holds anything: how much is free there, what
 * others hold, and of the processes that the asker may know the largest. */
#define DEVICES_TEXT_MAX 160
struct session;
void devices_say_others(const struct session *asker, uint32_t pool, uint64_t reserved,
                        char ret_text[static DEVICES_TEXT_MAX]);
