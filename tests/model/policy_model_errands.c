/* SPDX-License-Identifier: Apache-2.0 */
/* What is done for no waiting request: blocks are released because they are to go, or prewarmed. */
#include <stdlib.h>

#include "daemon/policy/drain.h"
#include "daemon/policy/aging.h"
#include "daemon/policy/prewarm.h"
#include "tests/model/policy_model_actions.h"

/* Who waits is not looked at; and those who map what is released are charged for it. */
static void begin_errand(struct model *model, enum model_errand errand)
{
        model_happened(model);
        model->errand = errand;
        model->unserved = true;
}

static bool is_idle(const struct model_block *block)
{
        return block->state == MODEL_HELD && model_is_idle(TAILQ_FIRST(&block->leases));
}

static struct model_release_all *begin_release_all(struct model *model, struct model_client *client)
{
        struct model_release_all *release_all = calloc(1, sizeof(*release_all));

        must(model, release_all && model->settled);
        release_all->client = client;
        release_all->serial = ++model->last_serial;
        LIST_INSERT_HEAD(&model->release_alls, release_all, link);
        return release_all;
}

/* What is cached or idle of these, in one pool or in all. */
static void add_blocks(struct model *model, struct model_release_all *release_all,
                       const bool is_chosen[MODEL_N_TENANTS], uint32_t pool)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state != MODEL_CACHED && !is_idle(block))
                        continue;
                if (!is_chosen[block->uid] || (pool != POLICY_ALL_POOLS && pool != block->pool))
                        continue;
                block->release_all = release_all;
                release_all->n_bytes += block->n_bytes;
                release_all->n_blocks++;
        }
        release_all->n_unreleased = release_all->n_blocks;
}

/* All of it is released; idle leases have been revoked for that. */
static void let_blocks_go(struct model *model, const struct model_release_all *release_all)
{
        struct model_block *block;

        begin_errand(model, MODEL_FREEING);
        model_note_revoked(model);
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->release_all != release_all)
                        continue;
                must(model, block->state == MODEL_CACHED);
                model_release(model, block);
        }
}

void model_release_all(struct model *model, struct model_client *client, enum policy_scope scope,
                       uint32_t pool)
{
        struct model_release_all *release_all = begin_release_all(model, client);
        bool is_chosen[MODEL_N_TENANTS];

        for (uint32_t i = 0; i < MODEL_N_TENANTS; i++)
                is_chosen[i] = scope == SCOPE_NODE || i == client->uid;
        add_blocks(model, release_all, is_chosen, pool);
        must(model, policy_release_all(model->policy, client->client, release_all->serial, scope,
                                       pool) == 0);
        let_blocks_go(model, release_all);
}

static bool is_of_chosen(const struct tenant_key *key, const void *argument)
{
        const bool *is_chosen = argument;

        return is_chosen[key->uid == POLICY_NO_UID ? MODEL_UNOWNED : key->uid];
}

void model_reclaim(struct model *model, struct model_client *client,
                   const bool is_chosen[MODEL_N_TENANTS])
{
        struct model_release_all *release_all = begin_release_all(model, client);

        add_blocks(model, release_all, is_chosen, POLICY_ALL_POOLS);
        model->n_reclaimed += release_all->n_blocks;
        must(model, policy_reclaim(model->policy, client->client, release_all->serial, is_of_chosen,
                                   is_chosen) == 0);
        let_blocks_go(model, release_all);
}

/* Where there are files for some blocks only, a tenant has its share of those. */
static bool fds_are_left(const struct model *model, uint32_t uid)
{
        const struct model_block *block;
        uint64_t n_all = 0, n_own = 0, n_kept;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_LINGERING || block->unreleasable)
                        continue;
                n_all++;
                n_own += block->uid == uid;
        }
        n_kept = n_own ? model->max_blocks / 16 : 0;
        return n_all < model->max_blocks - n_kept && n_own / 4 < model->max_blocks - n_all;
}

static bool somebody_waits(const struct model *model, uint32_t pool)
{
        const struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->ask.pool == pool)
                        return true;
        }
        return false;
}

static int predict_prewarm(const struct model *model, uint32_t pool, uint64_t n_bytes)
{
        if (pool >= MODEL_N_POOLS)
                return GPUMEM_E_NO_POOL;
        if (n_bytes == 0 || n_bytes % (2 * MIB) != 0)
                return GPUMEM_E_BAD_REQUEST;
        if (model->pools[pool].driver_status != DRIVER_SERVES)
                return GPUMEM_E_STALLED;
        if (model->closing || somebody_waits(model, pool) || model_room(model, pool) < n_bytes)
                return GPUMEM_E_REFUSED;
        return fds_are_left(model, MODEL_UNOWNED) ? 0 : GPUMEM_E_TOO_MANY;
}

void model_prewarm(struct model *model, uint32_t pool, uint64_t n_bytes)
{
        int expected = predict_prewarm(model, pool, n_bytes);
        struct model_block *block;

        must(model, model->settled);
        must(model, policy_prewarm(model->policy, pool, n_bytes, model->now_ns) == expected);
        if (expected)
                return;
        block = calloc(1, sizeof(*block));
        must(model, block);
        *block = (struct model_block){.pool = pool,
                                      .uid = MODEL_UNOWNED,
                                      .n_bytes = n_bytes,
                                      .state = MODEL_CREATING_FOR_CACHE};
        TAILQ_INIT(&block->leases);
        LIST_INSERT_HEAD(&model->blocks, block, link);
        model->n_prewarmed++;
        model_happened(model);
}

static uint64_t n_cached_bytes(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state == MODEL_CACHED &&
                    model_mapped(block) != MODEL_KEPT)
                        n_bytes += block->n_bytes;
        }
        return n_bytes;
}

uint64_t model_over(const struct model *model, uint32_t pool)
{
        const struct model_pool *expected = &model->pools[pool];
        uint64_t n_bytes = n_cached_bytes(model, pool);

        if (expected->return_after_ns == POLICY_KEEP_FOR_EVER || n_bytes < expected->keep_bytes)
                return 0;
        return n_bytes - expected->keep_bytes;
}

void model_set_pool_keep(struct model *model, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns)
{
        model->pools[pool].keep_bytes = keep_bytes;
        model->pools[pool].return_after_ns = return_after_ns;
        must(model, policy_set_pool_keep(model->policy, pool, keep_bytes, return_after_ns) == 0);
        model_happened(model);
}

/* Idle, and its client would unmap it. */
static bool is_aging(const struct model_block *block)
{
        return is_idle(block) && !TAILQ_FIRST(&block->leases)->keeps_mapped &&
               model_mapped(block) != MODEL_KEPT;
}

/* A look that is not at all blocks may have missed this one. */
static void note_look(const struct model *model, struct model_block *block, bool is_whole)
{
        block->aged = false;
        block->was_held = block->state == MODEL_HELD;
        /* There none looks. */
        if (model->pools[block->pool].return_after_ns == POLICY_KEEP_FOR_EVER) {
                block->idle_since_ns = 0;
                return;
        }
        if (!is_aging(block)) {
                block->idle_since_ns = 0;
                if (is_whole)
                        block->may_be_idle_since_ns = 0;
                return;
        }
        if (!block->may_be_idle_since_ns)
                block->may_be_idle_since_ns = model->now_ns;
        if (is_whole && !block->idle_since_ns)
                block->idle_since_ns = model->now_ns;
}

static void note_aged(struct model *model, struct model_block *block)
{
        if (!block->was_held || block->state == MODEL_HELD)
                return;
        block->aged = true;
        must(model, block->may_be_idle_since_ns);
        must(model, model->now_ns - block->may_be_idle_since_ns >=
                            model->pools[block->pool].return_after_ns);
        block->idle_since_ns = block->may_be_idle_since_ns = 0;
        model->n_aged++;
}

void model_note_cached(const struct model *model, struct model_block *block)
{
        block->cached_ns = block->idle_since_ns ? block->idle_since_ns : model->now_ns;
        block->may_be_cached_ns = block->may_be_idle_since_ns ? block->may_be_idle_since_ns
                                                              : block->cached_ns;
}

void model_age(struct model *model, unsigned n_looks)
{
        bool is_whole = !model->is_look_open && n_looks == UINT32_MAX;
        struct model_block *block;

        must(model, model->settled);
        LIST_FOREACH (block, &model->blocks, link)
                note_look(model, block, is_whole);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                model->pools[i].n_least_aged_bytes = UINT64_MAX;
                model->pools[i].was_in_excess = model_excess(model, i) > 0;
        }
        model->is_look_open = policy_age(model->policy, n_looks, model->now_ns);
        must(model, !is_whole || !model->is_look_open);
        begin_errand(model, MODEL_RETURNING);
        model_note_revoked(model);
        LIST_FOREACH (block, &model->blocks, link)
                note_aged(model, block);
}

static bool is_old(const struct model *model, const struct model_block *block)
{
        return model->now_ns - block->cached_ns >= model->pools[block->pool].return_after_ns;
}

static bool may_be_old(const struct model *model, const struct model_block *block)
{
        return model->now_ns - block->may_be_cached_ns >= model->pools[block->pool].return_after_ns;
}

bool model_may_return(const struct model *model, const struct model_block *block)
{
        return block->state == MODEL_CACHED && model_mapped(block) != MODEL_KEPT &&
               block->n_bytes <= model_over(model, block->pool);
}

void model_expect_returned(const struct model *model)
{
        const struct model_block *block;

        must(model, model->settled);
        LIST_FOREACH (block, &model->blocks, link) {
                must(model, !is_aging(block) || !block->idle_since_ns ||
                                    model->now_ns - block->idle_since_ns <
                                            model->pools[block->pool].return_after_ns);
                /* With actions left standing it may have been leased meanwhile, and no client was told. */
                if (model->kind == MODEL_EXACT || !model->pools[block->pool].return_after_ns)
                        must(model, !model_may_return(model, block) || !is_old(model, block));
        }
}

static void note_not_kept(struct model *model, const struct model_block *block)
{
        struct model_pool *pool = &model->pools[block->pool];

        if (!block->unusable && block->n_bytes < pool->n_least_aged_bytes)
                pool->n_least_aged_bytes = block->n_bytes;
}

void model_expect_kept(const struct model *model)
{
        const struct model_block *block;

        must(model, model->settled);
        for (uint32_t i = 0; i < MODEL_N_POOLS && model->kind == MODEL_EXACT; i++) {
                const struct model_pool *pool = &model->pools[i];

                must(model, pool->n_least_aged_bytes == UINT64_MAX || model->closing ||
                                    pool->was_in_excess ||
                                    n_cached_bytes(model, i) + pool->n_least_aged_bytes >
                                            pool->keep_bytes);
                LIST_FOREACH (block, &model->blocks, link)
                        must(model, !block->aged || block->pool != i ||
                                            block->state != MODEL_CACHED ||
                                            n_cached_bytes(model, i) <= pool->keep_bytes);
        }
}

void model_check_errand(struct model *model, const struct model_block *block)
{
        switch (model->errand) {
        case MODEL_FREEING:
                must(model, block->release_all);
                break;
        case MODEL_RETURNING:
                model->pools[block->pool].n_aged++;
                if (block->aged) {
                        note_not_kept(model, block);
                        break;
                }
                must(model, model_may_return(model, block));
                /* With actions left standing it may have been cached before that was known. */
                must(model, model->kind == MODEL_LAZY || may_be_old(model, block));
                model->n_returned++;
                break;
        case MODEL_DRAINING_IDLE:
                must(model, block->state == MODEL_CACHED && block->was_idle);
                break;
        case MODEL_NO_ERRAND:
                break;
        }
}

static void let_cached_go(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED)
                        model_release(model, block);
        }
}

void model_drain(struct model *model)
{
        struct model_request *request;

        must(model, model->settled);
        model->draining = true;
        model->closing = true;
        TAILQ_FOREACH (request, &model->requests, link) {
                request->failure = GPUMEM_E_SHUTTING_DOWN;
                model_make_for_cache(model, request);
        }
        let_cached_go(model);
        policy_drain(model->policy, model->now_ns);
        must(model, policy_is_draining(model->policy));
        model_happened(model);
}

unsigned model_n_candidates(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        unsigned n = 0;

        LIST_FOREACH (block, &model->blocks, link)
                n += block->pool == pool && block->state == MODEL_HELD &&
                     !(block->properties & POLICY_FRESH) && model_oldest_user(block)->words;
        return n;
}

void model_drain_idle(struct model *model, unsigned n_scans)
{
        unsigned n_before[MODEL_N_POOLS], n_taken;
        const struct model_block *block;

        must(model, model->settled && model->draining);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                n_before[i] = model_n_candidates(model, i);
        policy_drain_idle(model->policy, n_scans);
        begin_errand(model, MODEL_DRAINING_IDLE);
        model_note_revoked(model);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                n_taken = n_before[i] - model_n_candidates(model, i);
                must(model, n_taken <= n_scans);
                model->n_drained += n_taken;
        }
        LIST_FOREACH (block, &model->blocks, link)
                must(model, !is_idle(block) || n_before[block->pool] > n_scans);
}

void model_shut_down(struct model *model)
{
        model->closing = true;
        let_cached_go(model);
        policy_shut_down(model->policy);
        model_happened(model);
}
