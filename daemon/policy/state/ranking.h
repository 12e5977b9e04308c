/* SPDX-License-Identifier: Apache-2.0 */
/* Which of many have most bytes, without a walk through all.
 *
 * A ranking has one list for each power of two, so a change of a sum costs the same however many sums there are. Sums of 0
 * are in no list. Lists come in falling order; in one list the sum that came into it the longest ago is first. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

/* A sum in one ranking. All zero: a sum of 0. */
struct ranked {
        uint64_t n_bytes;
        TAILQ_ENTRY(ranked) link;
};

#define RANKING_N_CLASSES 64
struct ranking {
        uint64_t n_sums;
        uint64_t occupied; /* a bit for each list that is not empty */
        TAILQ_HEAD(ranking_class, ranked) classes[RANKING_N_CLASSES];
};

void ranking_init(struct ranking *ranking);

/* The sum is so large now. */
void ranking_set(struct ranking *ranking, struct ranked *ranked, uint64_t n_bytes);

/* The first sum, and the next one; NULL after the last. None may change between. */
struct ranked *ranking_first(const struct ranking *ranking);
struct ranked *ranking_next(const struct ranking *ranking, const struct ranked *ranked);

/* A walk in which the sum that was met last may fall: in a lower list it is met again. */
struct ranking_walk {
        const struct ranking *ranking;
        struct ranked *next; /* in this list, or NULL */
        unsigned class;
};

#define RANKING_WALK(of) ((struct ranking_walk){.ranking = (of), .class = RANKING_N_CLASSES})

/* NULL after the last. */
struct ranked *ranking_walk_next(struct ranking_walk *walk);

/* So much less, and the sum is in a lower list. */
uint64_t ranking_bytes_to_fall(const struct ranked *ranked);

void ranking_check(const struct ranking *ranking);
