/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/jobs.h"

#include "daemon/server/pools/driver_health.h"

void jobs_submit(struct server *server, uint32_t pool, struct job *job)
{
        server->pools[pool].n_jobs++;
        worker_submit(server->pools[pool].worker, job);
        driver_health_watch(server);
}
