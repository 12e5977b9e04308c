/* SPDX-License-Identifier: Apache-2.0 */
/* Which pools' drivers answer (daemon/policy/driver_state.h): takes note of results, and watches calls. On the loop.
 *
 * While a worker has something to do, or a device is lost, or the driver has not taken a block back, the
 * loop looks from time to time: whether a call hangs, whether to try again. Each change of a pool's
 * status is logged once, told to the policy and to every client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"

/* Starts the timer, if it does not run. */
void driver_health_watch(struct server *server);

/* Gives the pool's worker a job, which comes back by worker_take_done (daemon/backing/worker/worker.h): the driver is
 * watched until then. */
void driver_health_submit(struct server *server, uint32_t pool, struct job *job);

/* What a job that has come back says of the driver; before what it has left is kept, or gone. */
void driver_health_note_job(struct server *server, uint32_t pool, const struct job *job);
void driver_health_note_nvml(struct server *server, uint32_t pool, bool says_lost);

/* A trial of the driver, that it is, is over. Its block goes. */
void driver_health_end_try(struct server *server, uint32_t pool, struct job *job);

/* The figures of a pool's driver. */
void driver_health_fill(const struct server *server, uint32_t pool, struct stats_row *row);
