/* SPDX-License-Identifier: Apache-2.0 */
/* Work for the pools' workers, which comes back by worker_take_done (daemon/backing/worker/worker.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* The pool's driver is watched from now on, until the job has come back. */
void jobs_submit(struct server *server, uint32_t pool, struct job *job);
