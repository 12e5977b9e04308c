#include "daemon/policy/files.h"

#include "daemon/policy/client.h"
#include "daemon/policy/idle.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/request.h"
#include "daemon/policy/room.h"
#include "daemon/policy/state.h"
#include "daemon/policy/tenant.h"

/* A block is let go whole: one byte of it is enough to ask for. */
#define ONE_BLOCK 1

static uint64_t n_open_of(const struct tenant *tenant)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                n += tenant->holdings[i].totals.n_open;
        return n;
}

uint64_t policy_open_blocks(const struct policy *policy)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++)
                n += policy->pools[i]->totals.n_open;
        return n;
}

void policy_set_max_blocks(struct policy *policy, uint64_t n_blocks)
{
        policy->max_blocks = n_blocks;
}

bool files_have_room(const struct tenant *tenant)
{
        uint64_t max = tenant->policy->max_blocks, n_open = policy_open_blocks(tenant->policy);

        return n_open < max && n_open_of(tenant) / FILES_SHARE < max - n_open;
}

/* A driver that does not answer closes nothing, for now. */
static bool closes(const struct pool *pool)
{
        return pool->standing == STANDING_SERVES;
}

static bool is_coming(const struct policy *policy)
{
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                if (closes(policy->pools[i]) && policy->pools[i]->totals.n_closing)
                        return true;
        }
        return false;
}

static bool evict(const struct request *request, enum room_kind kind)
{
        struct tenant *tenant = request->client->tenant;

        if (room_evict(&tenant->holdings[request->pool->id], ONE_BLOCK, kind))
                return true;
        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                if (closes(tenant->holdings[i].pool) &&
                    room_evict(&tenant->holdings[i], ONE_BLOCK, kind))
                        return true;
        }
        return false;
}

static bool let_idle_go(const struct request *request, struct looks *looks)
{
        struct idle_leases own = {.n = 0};

        idle_add_own(&own, &request->client->tenant->holdings[request->pool->id], NULL, looks);
        idle_spare_kept(&own);
        return idle_let_go(&own, NULL, ONE_BLOCK) > 0;
}

bool files_call_in(const struct request *request, struct looks *looks)
{
        return is_coming(request->client->policy) || evict(request, ROOM_UNMAPPED) ||
               evict(request, ROOM_MAPPED) || let_idle_go(request, looks);
}
