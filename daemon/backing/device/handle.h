/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a block's handle back to the driver. On the pool's worker. */
#pragma once

#include "daemon/backing/worker/backing.h"

/* Closes the block's fd and calls `let_go` with the handle. A block without a handle is done at once. On
 * failure the job has the driver's failure text, and the block keeps the handle for another try. If the
 * driver repeatedly says that it does not know the handle, the handle is dropped. */
int handle_release(const struct cuda *cuda, struct backing_block *block,
                   int (*let_go)(const struct cuda *cuda, uint64_t handle));

/* Writes the failure of this thread's last driver call. */
void handle_say_failure(char ret_failure[static BACKING_FAILURE_MAX]);
