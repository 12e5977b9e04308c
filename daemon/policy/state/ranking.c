/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/ranking.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

void ranking_init(struct ranking *ranking)
{
        ranking->occupied = ranking->n_sums = 0;
        for (unsigned i = 0; i < RANKING_N_CLASSES; i++)
                TAILQ_INIT(&ranking->classes[i]);
}

static unsigned class_of(uint64_t n_bytes)
{
        return 63 - (unsigned)__builtin_clzll(n_bytes);
}

static void put(struct ranking *ranking, struct ranked *ranked)
{
        unsigned class = class_of(ranked->n_bytes);

        TAILQ_INSERT_TAIL(&ranking->classes[class], ranked, link);
        ranking->occupied |= UINT64_C(1) << class;
        ranking->n_sums++;
}

static void take_out(struct ranking *ranking, struct ranked *ranked)
{
        unsigned class = class_of(ranked->n_bytes);

        TAILQ_REMOVE(&ranking->classes[class], ranked, link);
        if (TAILQ_EMPTY(&ranking->classes[class]))
                ranking->occupied &= ~(UINT64_C(1) << class);
        ranking->n_sums--;
}

void ranking_set(struct ranking *ranking, struct ranked *ranked, uint64_t n_bytes)
{
        bool stays = ranked->n_bytes && n_bytes && class_of(ranked->n_bytes) == class_of(n_bytes);

        if (ranked->n_bytes && !stays)
                take_out(ranking, ranked);
        ranked->n_bytes = n_bytes;
        if (n_bytes && !stays)
                put(ranking, ranked);
}

/* The first of the highest list below `class`. */
static struct ranked *first_below(const struct ranking *ranking, unsigned class)
{
        uint64_t below = ranking->occupied &
                         (class < RANKING_N_CLASSES ? (UINT64_C(1) << class) - 1 : UINT64_MAX);

        return below ? TAILQ_FIRST(&ranking->classes[class_of(below)]) : NULL;
}

struct ranked *ranking_first(const struct ranking *ranking)
{
        return first_below(ranking, RANKING_N_CLASSES);
}

struct ranked *ranking_next(const struct ranking *ranking, const struct ranked *ranked)
{
        struct ranked *next = TAILQ_NEXT(ranked, link);

        return next ? next : first_below(ranking, class_of(ranked->n_bytes));
}

struct ranked *ranking_walk_next(struct ranking_walk *walk)
{
        struct ranked *ranked = walk->next ? walk->next : first_below(walk->ranking, walk->class);

        if (!ranked)
                return NULL;
        walk->class = class_of(ranked->n_bytes);
        walk->next = TAILQ_NEXT(ranked, link);
        return ranked;
}

uint64_t ranking_bytes_to_fall(const struct ranked *ranked)
{
        return ranked->n_bytes - (UINT64_C(1) << class_of(ranked->n_bytes)) + 1;
}

void ranking_check(const struct ranking *ranking)
{
        const struct ranked *ranked;
        uint64_t n_sums = 0;

        for (unsigned i = 0; i < RANKING_N_CLASSES; i++) {
                assert(TAILQ_EMPTY(&ranking->classes[i]) == !(ranking->occupied >> i & 1));
                TAILQ_FOREACH (ranked, &ranking->classes[i], link) {
                        assert(ranked->n_bytes && class_of(ranked->n_bytes) == i);
                        n_sums++;
                }
        }
        assert(n_sums == ranking->n_sums);
}
