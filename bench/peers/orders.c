/* Orders that every allocator in C answers. What takes part in a figure, and what its numbers are, stands
 * at each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/pairs.h"
#include "bench/peers/player.h"
#include "bench/peers/threads.h"
#include "bench/timing.h"

#define N_LIVE 1000

/* What is cached before it is dropped. */
#define N_DROPPED     64
#define DROPPED_BYTES (64 * MIB)

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
static int order_hot(struct player *player, const char *argument, double ret_numbers[static 1])
{
        static struct hot hot;
        int r = 0;

        (void)argument;
        if (!hot.player)
                r = pairs_fill(&hot.pairs, alloc, player);
        hot.player = player;
        return r ? r : time_repetition(hot_steps, &hot, player->allocator->n_steps, ret_numbers);
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
static int order_random(struct player *player, const char *argument, double ret_numbers[static 1])
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
        return r ? r
                 : time_repetition(random_steps, &random, player->allocator->n_steps, ret_numbers);
}

/* threads N: pairs a microsecond, all together. */
static int order_threads(struct player *player, const char *argument, double ret_numbers[static 1])
{
        return threads_measure(player, (unsigned)strtoul(argument, NULL, 10), ret_numbers);
}

/* first BYTES: ns of the allocation, ns since main. */
static int order_first(struct player *player, const char *argument, double ret_numbers[static 2])
{
        uint64_t start = clock_now_ns(), n_bytes = strtoull(argument, NULL, 10);
        void *pointer;
        int r = alloc(player, n_bytes, &pointer);

        ret_numbers[0] = (double)(clock_now_ns() - start);
        ret_numbers[1] = (double)(clock_now_ns() - player->started_ns);
        return r ? r : end(player, pointer);
}

struct cycle {
        struct player *player;
        uint64_t n_bytes;
};

static int cycle_steps(void *state, unsigned n_steps)
{
        const struct cycle *cycle = state;
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = alloc(cycle->player, cycle->n_bytes, &pointer);
                if (!r)
                        r = end(cycle->player, pointer);
        }
        return r;
}

/* cycle BYTES: ns of an alloc and its free, with nothing else allocated. */
static int order_cycle(struct player *player, const char *argument, double ret_numbers[static 1])
{
        struct cycle cycle = {player, strtoull(argument, NULL, 10)};

        return time_repetition(cycle_steps, &cycle, 4, ret_numbers);
}

/* The kernel's size of the pages at an address, in KiB; 0: not known. */
static double page_kib(const void *pointer)
{
        uintptr_t begin, finish, address = (uintptr_t)pointer;
        FILE *maps = fopen("/proc/self/smaps", "re");
        char line[512];
        double kib = 0;
        int is_there = 0;

        while (maps && !kib && fgets(line, sizeof(line), maps)) {
                if (sscanf(line, "%lx-%lx ", &begin, &finish) == 2)
                        is_there = begin <= address && address < finish;
                else if (is_there && strncmp(line, "KernelPageSize:", 15) == 0)
                        kib = strtod(line + 15, NULL);
        }
        if (maps)
                (void)fclose(maps);
        return kib;
}

/* pinned BYTES: ns to the end of the first copy out of it, of 2 MiB; KiB of a page. */
static int order_pinned(struct player *player, const char *argument, double ret_numbers[static 2])
{
        uint64_t start, n_bytes = strtoull(argument, NULL, 10);
        void *pointer;
        int r;

        if (!player->allocator->pin)
                return player_explain(player, -ENOTSUP, "it has no pinned memory");
        r = stage_prepare_copy(&player->stage);
        if (r)
                return player_explain(player, r, stage_failure());
        start = clock_now_ns();
        r = player->allocator->pin(player, n_bytes, &pointer);
        if (r)
                return r;
        r = stage_copy(&player->stage, pointer);
        ret_numbers[0] = (double)(clock_now_ns() - start);
        if (r)
                return player_explain(player, r, stage_failure());
        ret_numbers[1] = page_kib(pointer);
        return player->allocator->unpin(player, pointer);
}

/* memory: bytes of the device, bytes free. */
static int order_memory(struct player *player, const char *argument, double ret_numbers[static 2])
{
        size_t n_free, n_total;
        int r = CUDA_CALL(&player->stage.cuda, cuMemGetInfo, &n_free, &n_total);

        (void)argument;
        if (r)
                return player_explain(player, r, stage_failure());
        ret_numbers[0] = (double)n_total;
        ret_numbers[1] = (double)n_free;
        return 0;
}

/* hold BYTES: until the order drop, or the end. */
static int order_hold(struct player *player, const char *argument, double ret_numbers[static 1])
{
        (void)ret_numbers;
        return alloc(player, strtoull(argument, NULL, 10), &player->held);
}

/* cache BYTES: allocated and freed. */
static int order_cache(struct player *player, const char *argument, double ret_numbers[static 1])
{
        void *pointer;
        int r = alloc(player, strtoull(argument, NULL, 10), &pointer);

        (void)ret_numbers;
        return r ? r : end(player, pointer);
}

/* wait BYTES: until it has them. */
static int order_wait(struct player *player, const char *argument, double ret_numbers[static 1])
{
        (void)ret_numbers;
        return player->allocator->wait(player, strtoull(argument, NULL, 10), 20, &player->held);
}

/* drop: ns to give back to the driver what 64 allocations of 64 MiB left. */
static int order_drop(struct player *player, const char *argument, double ret_numbers[static 1])
{
        void *pointers[N_DROPPED];
        unsigned n = 0;
        uint64_t start;
        int r = 0;

        (void)argument;
        for (; n < N_DROPPED && !r; n++)
                r = alloc(player, DROPPED_BYTES, &pointers[n]);
        for (unsigned i = 0; i < n && !r; i++)
                r = end(player, pointers[i]);
        start = clock_now_ns();
        if (!r)
                r = player->allocator->drop(player);
        ret_numbers[0] = (double)(clock_now_ns() - start);
        return r;
}

/* clear: nothing is cached. */
static int order_clear(struct player *player, const char *argument, double ret_numbers[static 1])
{
        (void)argument;
        (void)ret_numbers;
        return player->allocator->drop(player);
}

const struct order orders_common[] = {{"hot", order_hot},
                                      {"random", order_random},
                                      {"threads", order_threads},
                                      {"first", order_first},
                                      {"cycle", order_cycle},
                                      {"pinned", order_pinned},
                                      {"memory", order_memory},
                                      {"hold", order_hold},
                                      {"cache", order_cache},
                                      {"wait", order_wait},
                                      {"drop", order_drop},
                                      {"clear", order_clear},
                                      {NULL, NULL}};
