/* Whether blocks that come back are whole. */
#include <inttypes.h>

#include "base/log.h"
#include "daemon/server/pools/pools.h"
#include "daemon/server/session/session.h"

void pools_look(struct server *server, struct client *client, uint64_t lease_id)
{
        const struct session *session = client_owner(client);
        struct block *block = policy_leased_block(client, lease_id);
        const struct backing_block *backing = block ? block_backing(block) : NULL;
        uint32_t pool;

        if (!backing)
                return;
        pool = block_pool(block);
        if (worker_look(server->pools[pool].worker, backing) == BACKING_WHOLE)
                return;
        if (server_may_complain(server))
                log_info("client %d (%s): a block of %s came back with holes: it is not served "
                         "again",
                         (int)session->peer.pid, session->program, server->pools[pool].row.name);
        policy_spoil(server->policy, block, server_now_ns(server));
}
