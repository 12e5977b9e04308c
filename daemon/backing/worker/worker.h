/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's own thread: it carries out jobs in the order of their coming, so that the loop never
 * waits for a driver, and a release that was submitted before a create has made its room.
 *
 * submit and take_done are called by the loop's thread; `wake` is called by the worker's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backing/worker/backing.h"

struct worker;

/* Starts the thread. The worker owns `take_backing`, also when this fails. */
int worker_new(struct backing *take_backing, void (*wake)(void *argument), void *wake_argument,
               struct worker **ret_worker);

/* Finishes every job that was submitted, then ends the thread. One whose job is late is left behind, with
 * its backing and what it has yet to do (abandoned_workers.h). NULL is legal; returns NULL. */
struct worker *worker_free(struct worker *worker);

/* The job stays the worker's until worker_take_done gives it back. */
void worker_submit(struct worker *worker, struct job *job);

/* The next job that is done, in the order of submission; NULL: none. */
struct job *worker_take_done(struct worker *worker);

/* Has the job that runs, and later ones, give up soon if they may: for a daemon that ends. */
void worker_cancel(struct worker *worker);

/* Has the job that runs taken longer than one may whose driver answers? The time is CLOCK_MONOTONIC's. */
bool worker_is_late(const struct worker *worker, uint64_t now_ns);

/* Are its jobs a driver's? */
bool worker_needs_driver(const struct worker *worker);

/* Are all of the block's bytes still there? Any thread; for a block that the worker has made and was
 * not told to release. */
enum backing_wholeness worker_look(const struct worker *worker, const struct backing_block *block);
