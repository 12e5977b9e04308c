/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/device/handle.h"

#include <errno.h>
#include <stdio.h>

#include "base/fdset.h"
#include "base/log.h"

/* After so many refusals the daemon believes the driver that the handle is unknown. */
#define N_UNKNOWN 3

void handle_say_failure(char ret_failure[static BACKING_FAILURE_MAX])
{
        (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "%s", cuda_failure());
}

int handle_release(const struct cuda *cuda, struct backing_block *block,
                   int (*let_go)(const struct cuda *cuda, uint64_t handle))
{
        int r;

        closep(&block->fd);
        r = block->handle ? let_go(cuda, block->handle) : 0;
        if (r == -EINVAL)
                block->n_unknown++;
        if (r && block->n_unknown < N_UNKNOWN) {
                handle_say_failure(block->job.failure);
                return r;
        }
        if (r)
                log_error("the driver does not know a block's handle: %s", cuda_failure());
        block->handle = 0;
        return 0;
}
