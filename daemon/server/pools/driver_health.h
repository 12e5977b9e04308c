/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the pools' drivers answer (daemon/policy/driver_state.h): notes the results of driver calls, and
 * watches for calls that hang. On the loop.
 *
 * A timer runs while a worker is busy, a device is lost, or the driver has not taken a block back. It
 * checks whether a call hangs and whether to try again. Each change of a pool's status is logged once, and
 * told to the policy and to every client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"

/* Starts the timer, unless it runs. */
void driver_health_watch(struct server *server);

/* driver_jobs_submit; the driver is watched until the job is finished. */
void driver_health_submit(struct server *server, uint32_t pool, struct payer *payer,
                          struct job *job);

/* Notes the driver's state from a finished job. Call it before the job's block is kept for a retry, or
 * freed. */
void driver_health_note_job(struct server *server, uint32_t pool, const struct job *job);
void driver_health_note_nvml(struct server *server, uint32_t pool, bool says_lost);

/* Ends a trial of the driver and frees its block. */
void driver_health_end_try(struct server *server, uint32_t pool, struct job *job);

/* Clients are told of no more changes. */
void driver_health_stop(struct server *server, uint32_t pool);

/* Fills in the statistics of a pool's driver. */
void driver_health_fill(const struct server *server, uint32_t pool, struct stats_row *row);
