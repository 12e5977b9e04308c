/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "gpumem.h"

/* Compares every byte, so that the time does not depend on their values. */
static unsigned differ(const void *one, const void *other)
{
        const uint8_t *a = one, *b = other;
        unsigned difference = 0;

        for (unsigned i = 0; i < POLICY_TOKEN_BYTES; i++)
                difference |= a[i] ^ b[i];
        return difference;
}

/* The table holds the tokens of all users. It has all its buckets from the first token on, and never moves what it holds:
 * that would be one step. With a million tokens a bucket has 61 of them. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#undef HASH_BKT_CAPACITY_THRESH
#define HASH_INITIAL_NUM_BUCKETS      16384U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 14U
#define HASH_BKT_CAPACITY_THRESH      (UINT32_MAX / 2)

#undef HASH_KEYCMP
#define HASH_KEYCMP(one, other, n_bytes) differ(one, other)

struct share *share_find(const struct policy *policy, const struct policy_token *token)
{
        struct share *share;

        HASH_FIND(hh, policy->shares, token, sizeof(*token), share);
        return share;
}

int share_new(struct block *block, const struct policy_share *terms)
{
        struct policy *policy = block->pool->policy;
        struct share *share;

        if (block->n_shares >= SHARES_PER_BLOCK_MAX)
                return GPUMEM_E_TOO_MANY;
        if (share_find(policy, &terms->token))
                return -EEXIST;
        share = calloc(1, sizeof(*share));
        if (!share)
                return -ENOMEM;
        share->token = terms->token;
        share->n_bytes = terms->n_bytes;
        share->granted_uid = terms->granted_uid;
        share->block = block;
        HASH_ADD(hh, policy->shares, token, sizeof(share->token), share);
        if (!share->hh.tbl) {
                free(share);
                return -ENOMEM;
        }
        LIST_INSERT_HEAD(&block->shares, share, block_link);
        block->n_shares++;
        return 0;
}

struct share *share_free(struct share *share)
{
        struct policy *policy;

        if (!share)
                return NULL;
        policy = share->block->pool->policy;
        LIST_REMOVE(share, block_link);
        share->block->n_shares--;
        HASH_DEL(policy->shares, share);
        assert(!share->keeper);
        free(share);
        return NULL;
}

bool share_is_of(const struct share *share, const struct client *client)
{
        return share->block->holding->tenant == client->tenant;
}

bool share_is_for(const struct share *share, const struct client *client)
{
        return share_is_of(share, client) || (share->granted_uid != POLICY_NO_UID &&
                                              share->granted_uid == client->tenant->key.uid);
}
