/* The part of policy_check() that looks at tokens. */
#include <assert.h>

#include "daemon/policy/block.h"
#include "daemon/policy/check.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/share.h"
#include "daemon/policy/state.h"

void check_shares_of(const struct block *block)
{
        const struct policy *policy = block_its_pool(block)->policy;
        const struct share *share;
        uint32_t n = 0;

        LIST_FOREACH (share, &block->shares, block_link) {
                assert(share->block == block);
                assert(share->n_bytes > 0 && share->n_bytes <= block->bin->n_bytes);
                assert(share_find(policy, &share->token) == share);
                n++;
        }
        assert(n == block->n_shares && n <= SHARES_PER_BLOCK_MAX);
        assert(n == 0 ||
               (block->state == BLOCK_LEASED && block->bin->properties & POLICY_SHAREABLE));
}

void check_shares(const struct policy *policy)
{
        const struct block *block;
        uint64_t n = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link)
                        n += block->n_shares;
        }
        assert(n == HASH_COUNT(policy->shares));
}
