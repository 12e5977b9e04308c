/* SPDX-License-Identifier: Apache-2.0 */
/* A driver's handle of a block, on its way back. On the pool's worker. */
#pragma once

#include "daemon/backing/worker/backing.h"

/* Closes the block's fd and has `let_go` give the handle back; a block without one is whole work done.
 * A failure is the driver's, with the job's failure text: the handle is kept, to be tried again. One that
 * the driver says more than once that it does not know is gone. */
int handle_release(const struct cuda *cuda, struct backing_block *block,
                   int (*let_go)(const struct cuda *cuda, uint64_t handle));

/* The failure of a driver call that this thread has just made. */
void handle_say_failure(char ret_failure[static BACKING_FAILURE_MAX]);
