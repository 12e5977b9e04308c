/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's worker thread carries out jobs, in an order that is fair to users and to what they leave behind
 * (job_lines.h). The loop so never waits for a driver.
 *
 * The loop's thread calls worker_submit and worker_take_done; the worker's thread calls `wake`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backing/worker/backing.h"

struct worker;

/* Starts the thread. Consumes `take_backing`, also on failure. */
int worker_new(struct backing *take_backing, void (*wake)(void *argument), void *wake_argument,
               struct worker **ret_worker);

/* Finishes every submitted job and ends the thread. A worker whose job is late is abandoned, with its
 * backing and queue (abandoned_threads.h). NULL is legal; returns NULL. */
struct worker *worker_free(struct worker *worker);

/* The worker owns the job until worker_take_done returns it. */
void worker_submit(struct worker *worker, struct job *job);

/* The job that has been finished the longest; NULL: none. */
struct job *worker_take_done(struct worker *worker);

/* Aborts the running job and later ones soon, where that is possible: the daemon ends. */
void worker_cancel(struct worker *worker);

/* When the running job began, if it takes longer than a driver that answers would; else 0. `now_ns` is
 * CLOCK_MONOTONIC. */
uint64_t worker_late_since(const struct worker *worker, uint64_t now_ns);

/* Whether its jobs make driver calls. */
bool worker_needs_driver(const struct worker *worker);

/* Whether all of the block's bytes are still there. Any thread; for a block that the worker has created and
 * was not told to release. */
enum backing_wholeness worker_look(const struct worker *worker, const struct backing_block *block);
