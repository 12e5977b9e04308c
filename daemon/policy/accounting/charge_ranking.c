/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge_ranking.h"

#include <assert.h>

void charge_ranking_init(struct charge_ranking *ranking, enum charge_ranking_of of)
{
        ranking->of = of;
        ranking->occupied = ranking->n_sums = 0;
        for (unsigned i = 0; i < CHARGE_N_CLASSES; i++)
                LIST_INIT(&ranking->classes[i]);
}

static unsigned class_of(const struct charge_sum *sum)
{
        return 63 - (unsigned)__builtin_clzll(sum->n_bytes);
}

static void put(struct charge_ranking *ranking, struct charge_sum *sum)
{
        LIST_INSERT_HEAD(&ranking->classes[class_of(sum)], sum, links[ranking->of]);
        ranking->occupied |= UINT64_C(1) << class_of(sum);
        ranking->n_sums++;
}

static void take_out(struct charge_ranking *ranking, struct charge_sum *sum)
{
        LIST_REMOVE(sum, links[ranking->of]);
        if (LIST_EMPTY(&ranking->classes[class_of(sum)]))
                ranking->occupied &= ~(UINT64_C(1) << class_of(sum));
        ranking->n_sums--;
}

static void set(struct client *client, struct pool *pool, uint64_t n_bytes)
{
        struct charge_ranking *rankings[CHARGE_N_RANKINGS] = {
                [CHARGE_OF_POOL] = &pool->ranking,
                [CHARGE_OF_TENANT] = &client->tenant->holdings[pool->id].ranking};
        struct charge_sum *sum = &client->sums[pool->id];
        uint64_t was = sum->n_bytes;
        bool moves = !was || !n_bytes || __builtin_clzll(was) != __builtin_clzll(n_bytes);

        for (unsigned i = 0; moves && was && i < CHARGE_N_RANKINGS; i++)
                take_out(rankings[i], sum);
        sum->n_bytes = n_bytes;
        for (unsigned i = 0; moves && n_bytes && i < CHARGE_N_RANKINGS; i++)
                put(rankings[i], sum);
}

void charge_ranking_add(struct client *client, struct pool *pool, uint64_t n_bytes)
{
        set(client, pool, client->sums[pool->id].n_bytes + n_bytes);
}

void charge_ranking_sub(struct client *client, struct pool *pool, uint64_t n_bytes)
{
        assert(client->sums[pool->id].n_bytes >= n_bytes);
        set(client, pool, client->sums[pool->id].n_bytes - n_bytes);
}

/* The first of the highest list below `class`. */
static struct charge_sum *first_below(const struct charge_ranking *ranking, unsigned class)
{
        uint64_t below = ranking->occupied &
                         (class < CHARGE_N_CLASSES ? (UINT64_C(1) << class) - 1 : UINT64_MAX);

        return below ? LIST_FIRST(&ranking->classes[63 - (unsigned)__builtin_clzll(below)]) : NULL;
}

struct charge_sum *charge_ranking_first(const struct charge_ranking *ranking)
{
        return first_below(ranking, CHARGE_N_CLASSES);
}

struct charge_sum *charge_ranking_next(const struct charge_ranking *ranking,
                                       const struct charge_sum *sum)
{
        struct charge_sum *next = LIST_NEXT(sum, links[ranking->of]);

        return next ? next : first_below(ranking, class_of(sum));
}

void charge_ranking_check(const struct charge_ranking *ranking)
{
        const struct charge_sum *sum;
        uint64_t n_sums = 0;

        for (unsigned i = 0; i < CHARGE_N_CLASSES; i++) {
                assert(LIST_EMPTY(&ranking->classes[i]) == !(ranking->occupied >> i & 1));
                LIST_FOREACH (sum, &ranking->classes[i], links[ranking->of]) {
                        assert(sum->n_bytes && class_of(sum) == i);
                        n_sums++;
                }
        }
        assert(n_sums == ranking->n_sums);
}
