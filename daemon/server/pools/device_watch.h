/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML reports of the pools' devices, and how the daemon reacts. On the loop; watches
 * (daemon/backing/device/watch.h) ask NVML on their own threads.
 *
 * On a device that reports an error no new blocks are created until it recovers. Leases and the cache stay
 * usable. A create that failed for lack of device memory is held until NVML has said which processes use
 * the memory, so that the refusal can name them. The wait is short, since NVML may hang. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"
#include "proto/messages.h"

/* Starts the watches. `library` is NVML's name; a pool without a watch has unknown statistics.
 * `canary_library`: see server_options. */
int device_watch_open(struct server *server, const char *library, const char *canary_library);

/* The pools' stocks have changed: tells the watches how much is to stay free for programs without gpumemd. While less
 * is, each report has unused memory given back. */
void device_watch_apply(struct server *server);

/* Releases the held creates, and holds no more. */
void device_watch_stop(struct server *server);
void device_watch_free(struct server *server);

/* Holds a failed create until device_watch_take_answered() returns it. False: not held. */
bool device_watch_hold(struct server *server, uint32_t pool, struct job *job);

/* The oldest create that is no longer held; NULL: there is none. */
struct job *device_watch_take_answered(struct server_pool *pool);

/* The device reports an error: no new blocks are created there. */
bool device_watch_is_barred(const struct server_pool *pool);

/* The driver does not clear the device's memory: from now on only one tenant is served there. */
void device_watch_mark_dirty(struct server *server, struct server_pool *pool);

/* Whether the tenant may have memory there. On a device for one tenant only, the first tenant becomes that
 * one. */
bool device_watch_admits(struct server *server, uint32_t pool, const struct tenant_key *tenant);

/* The tenant is about to have a block there: where there may be one tenant only, it is this one from now on. False: it is
 * another one. */
bool device_watch_claim(struct server *server, uint32_t pool, const struct tenant_key *tenant);

/* Fills in the device's statistics; `reserved` is the pool's part of the device's memory. */
void device_watch_fill(const struct server_pool *pool, uint64_t reserved, struct stats_row *row);

/* Facts for a refusal: how much is free on the device, how much other processes hold, and the largest of those that
 * the asker may know. None if nothing is known, or no other process holds memory. */
struct session;
void device_watch_fill_users(const struct session *asker, uint32_t pool, uint64_t reserved,
                             struct message_refused_facts *facts);

/* PROTO_DEVICE_*, as NVML says. */
uint32_t device_watch_state(const struct server_pool *pool);
