/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of the pools' workers, and who pays for them: a block is made for the process that asked for it, and released for
 * the one whose step let it go. To take a finished job is a step of its payer's. The worker takes the jobs of users by
 * turns. If a block makes room for a request, its release is in the turn of the user that asks; if it is above a pool's lowered limit,
 * in the node's, which also pays. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* NULL: no memory. No file and no handle. */
struct backing_block *driver_jobs_new_block(struct server *server, uint32_t pool, uint64_t n_bytes);
struct backing_block *driver_jobs_free_block(struct backing_block *block);

/* Gives the pool's worker a job for a block of driver_jobs_new_block: the job's user, or else the payer's owner, has its
 * turn for it. Later it is given to the server's `end_job`. */
void driver_jobs_submit(struct server *server, uint32_t pool, struct payer *payer, struct job *job);

/* The payer of what the loop does now: of the step, or the node. */
struct payer *driver_jobs_payer_now(struct server *server);

/* A worker has finished something. Once the server stops, there are no steps: all is done at once. */
void driver_jobs_open(struct server *server);
void driver_jobs_wake(struct server *server);

/* The server stops: no finished job waits for its step any more. */
void driver_jobs_stop(struct server *server);

/* The workers have ended. A driver that hung in the end may leave jobs, which have no payer from now on. */
void driver_jobs_forget(struct server *server);
