/* SPDX-License-Identifier: Apache-2.0 */
/* Orders that every allocator in C answers, each with one number. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/pairs.h"
#include "bench/peers/player.h"
#include "bench/timing.h"

#define N_LIVE        1000
#define N_BLOCK_STEPS 4

static int alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        struct player *player = argument;

        return player->allocator->alloc(player, 0, n_bytes, ret_pointer);
}

static int end(void *argument, void *pointer)
{
        struct player *player = argument;

        return player->allocator->free(player, 0, pointer);
}

struct hot {
        struct player *player;
        struct pairs pairs;
};

static int hot_steps(void *state, unsigned n_steps)
{
        struct hot *hot = state;

        return pairs_steps(&hot->pairs, n_steps, alloc, end, hot->player);
}

/* hot: ns a pair. */
static int order_hot(struct player *player, const char *argument, double *ret_ns)
{
        static struct hot hot;
        int r = 0;

        (void)argument;
        if (!hot.player)
                r = pairs_fill(&hot.pairs, alloc, player);
        hot.player = player;
        return r ? r : time_repetition(hot_steps, &hot, player->allocator->n_steps, ret_ns);
}

struct random {
        struct player *player;
        struct replace replace;
};

static int random_steps(void *state, unsigned n_steps)
{
        struct random *random = state;

        return replace_steps(&random->replace, n_steps, alloc, end, random->player);
}

/* random: ns a pair. */
static int order_random(struct player *player, const char *argument, double *ret_ns)
{
        static struct random random;
        int r = 0;

        (void)argument;
        if (!random.player) {
                r = replace_init(&random.replace, N_LIVE, REPLACE_WIDE, 1);
                if (!r)
                        r = replace_fill(&random.replace, alloc, player);
        }
        random.player = player;
        return r ? r : time_repetition(random_steps, &random, player->allocator->n_steps, ret_ns);
}

/* first BYTES: ns of the allocation. */
static int order_first(struct player *player, const char *argument, double *ret_ns)
{
        uint64_t start = clock_now_ns();
        void *pointer;
        int r = alloc(player, strtoull(argument, NULL, 10), &pointer);

        *ret_ns = (double)(clock_now_ns() - start);
        return r ? r : end(player, pointer);
}

struct block {
        struct player *player;
        uint64_t n_bytes;
};

static int block_steps(void *state, unsigned n_steps)
{
        const struct block *block = state;
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = alloc(block->player, block->n_bytes, &pointer);
                if (!r)
                        r = end(block->player, pointer);
        }
        return r;
}

/* block BYTES: ns of an alloc and its free, with nothing else allocated. */
static int order_block(struct player *player, const char *argument, double *ret_ns)
{
        struct block block = {player, strtoull(argument, NULL, 10)};

        return time_repetition(block_steps, &block, N_BLOCK_STEPS, ret_ns);
}

int order_back_alloc(struct player *player, void *ret_pointers[static ORDER_BACK_N])
{
        int r = 0;

        for (unsigned i = 0; i < ORDER_BACK_N && !r; i++)
                r = alloc(player, ORDER_BACK_BYTES, &ret_pointers[i]);
        return r;
}

/* back: ns of the frees of 64 allocations of 64 MiB, for allocators that keep nothing. */
static int order_back(struct player *player, const char *argument, double *ret_ns)
{
        void *pointers[ORDER_BACK_N];
        uint64_t start;
        int r = order_back_alloc(player, pointers);

        (void)argument;
        start = clock_now_ns();
        for (unsigned i = 0; i < ORDER_BACK_N && !r; i++)
                r = end(player, pointers[i]);
        *ret_ns = (double)(clock_now_ns() - start);
        return r;
}

/* gpumemd has its own orders for what it keeps: a block, one that is still mapped, and all that it gives back. */
const struct order orders_common[] = {
        {"hot", order_hot},     {"random", order_random}, {"threads", order_threads},
        {"first", order_first}, {"block", order_block},   {"known", order_block},
        {"alloc", order_block}, {"back", order_back},     {NULL, NULL}};
