#include "daemon/server/pools/jobs.h"

#include "daemon/server/pools/standings.h"

void jobs_submit(struct server *server, uint32_t pool, struct job *job)
{
        server->pools[pool].n_jobs++;
        worker_submit(server->pools[pool].worker, job);
        standings_watch(server);
}
