/* Blocks whose bytes are not what they were made of. */
#include <assert.h>

#include "daemon/policy/admission.h"
#include "daemon/policy/block.h"
#include "daemon/policy/lease.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/state.h"

struct block *policy_leased_block(struct client *client, uint64_t lease_id)
{
        struct lease *lease = lease_find(client, lease_id);

        if (!lease || (lease->block->state != BLOCK_LEASED && lease->block->state != BLOCK_CACHED))
                return NULL;
        return lease->block;
}

void policy_spoil(struct policy *policy, struct block *block, uint64_t now_ns)
{
        struct pool *pool = block_its_pool(block);

        assert(pool->policy == policy);
        block->spoiled = true;
        if (block->state != BLOCK_CACHED)
                return;
        block_let_go(block);
        admission_serve(pool, now_ns);
}
