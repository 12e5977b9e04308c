/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/release_all.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/walk_part.h"

static void take_block(struct release_all *release_all, struct block *block)
{
        release_all->n_bytes += block->bin->n_bytes;
        release_all->n_blocks++;
        block->release_all = release_all;
        LIST_INSERT_HEAD(&release_all->unreleased, block, release_all_link);
        block_release(block);
}

static bool is_meant(const struct release_all *release_all, const struct block *block)
{
        const struct tenant *tenant = block->holding->tenant;

        if (release_all->pool != POLICY_ALL_POOLS && release_all->pool != block->pool->id)
                return false;
        if (release_all->is_chosen)
                return release_all->is_chosen(&tenant->key, release_all->argument);
        return release_all->scope == SCOPE_NODE || tenant == release_all->client->tenant;
}

/* Returns whether the block goes back. */
static bool look_at(struct release_all *release_all, struct block *block)
{
        if (!is_meant(release_all, block))
                return false;
        if (block->state != BLOCK_CACHED &&
            !(block_may_be_idle(block) && lease_revoke(TAILQ_FIRST(&block->leases))))
                return false;
        take_block(release_all, block);
        return true;
}

/* A client that ends gets no answer, and its calls are freed with it. */
static void answer_if_done(struct release_all *release_all)
{
        if (release_all->client->is_ending)
                return;
        if (LIST_EMPTY(&release_all->unreleased) && !release_all->is_walking)
                action_push(&release_all->client->policy->actions, &release_all->action,
                            ACTION_FREED);
}

static int begin(const struct release_all *values, struct release_all **ret_release_all)
{
        struct release_all *release_all = malloc(sizeof(*release_all));

        if (!release_all)
                return -ENOMEM;
        *release_all = *values;
        release_all->is_walking = true;
        LIST_INIT(&release_all->unreleased);
        LIST_INSERT_HEAD(&release_all->client->release_alls, release_all, client_link);
        *ret_release_all = release_all;
        return 0;
}

static bool go_on(struct release_all *release_all, unsigned n_most)
{
        const struct numbered *blocks = &release_all->client->policy->blocks;
        struct block *block;

        numbered_go_on(&release_all->walk, n_most);
        while ((block = numbered_next(blocks, &release_all->walk))) {
                if (look_at(release_all, block))
                        numbered_spend(&release_all->walk, PART_RELEASE_ITEMS);
        }
        if (!numbered_is_over(blocks, &release_all->walk))
                return true;
        release_all->is_walking = false;
        answer_if_done(release_all);
        return false;
}

int release_all_new(struct client *client, uint32_t serial, uint32_t pool, enum policy_scope scope)
{
        const struct release_all values = {.client = client,
                                           .serial = serial,
                                           .pool = pool,
                                           .scope = scope,
                                           .of_others = scope == SCOPE_NODE};
        struct release_all *release_all;
        int r = begin(&values, &release_all);

        if (!r && !client->policy->in_turns)
                (void)go_on(release_all, UINT_MAX);
        return r;
}

int release_all_of(struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument)
{
        const struct release_all values = {.client = client,
                                           .serial = serial,
                                           .pool = POLICY_ALL_POOLS,
                                           .is_chosen = is_chosen,
                                           .argument = argument,
                                           .of_others = true};
        struct release_all *release_all;
        int r = begin(&values, &release_all);

        if (!r && !client->policy->in_turns)
                (void)go_on(release_all, UINT_MAX);
        return r;
}

bool release_all_go_on(struct client *client, unsigned n_most)
{
        struct release_all *release_all;

        LIST_FOREACH (release_all, &client->release_alls, client_link) {
                if (release_all->is_walking)
                        return go_on(release_all, n_most);
        }
        return false;
}

static void forget_block(struct block *block)
{
        if (block->state == BLOCK_LINGERING)
                block->pool->n_awaited--;
        LIST_REMOVE(block, release_all_link);
        block->release_all = NULL;
}

struct release_all *release_all_free(struct release_all *release_all)
{
        if (!release_all)
                return NULL;
        while (!LIST_EMPTY(&release_all->unreleased))
                forget_block(LIST_FIRST(&release_all->unreleased));
        action_withdraw(&release_all->action);
        LIST_REMOVE(release_all, client_link);
        free(release_all);
        return NULL;
}

void release_all_drop_one(struct release_all *release_all)
{
        if (LIST_EMPTY(&release_all->unreleased))
                release_all_free(release_all);
        else
                forget_block(LIST_FIRST(&release_all->unreleased));
}

void release_all_released(struct block *block)
{
        struct release_all *release_all = block->release_all;

        if (!release_all)
                return;
        forget_block(block);
        answer_if_done(release_all);
}

void release_all_lingers(struct block *block)
{
        if (!block->release_all)
                return;
        block->pool->n_awaited++;
        if (block_is_kept(block) || block->unmap_timed_out)
                release_all_stays(block);
}

void release_all_stays(struct block *block)
{
        struct release_all *release_all = block->release_all;

        if (!release_all)
                return;
        release_all->n_bytes -= block->bin->n_bytes;
        release_all->n_blocks--;
        forget_block(block);
        answer_if_done(release_all);
}
