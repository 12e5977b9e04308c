/* The child's side of rival.h: reads orders, answers them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/peers/player.h"
#include "bench/timing.h"
#include "gpumem.h"

static const struct {
        enum rival_kind kind;
        const struct allocator *allocator; /* NULL: without CUDA */
        const struct order *orders[2];
} plays[] = {
        {RIVAL_GPUMEMD, &allocator_gpumemd, {orders_common, orders_gpumemd}},
        {RIVAL_CLIENT, NULL, {orders_client}},
        {RIVAL_DRIVER, &allocator_driver, {orders_common}},
        {RIVAL_ASYNC, &allocator_async, {orders_common}},
};

int player_explain(struct player *player, int r, const char *reason)
{
        (void)snprintf(player->reason, ROW_NOTE_MAX, "%s", reason);
        return r;
}

static const char *explain(const struct player *player, int r)
{
        if (player->reason[0])
                return player->reason;
        return player->allocator ? player->allocator->explain(r) : gpumem_strerror(r);
}

static int answer(const char *line)
{
        return puts(line) == EOF || fflush(stdout) == EOF ? -EPIPE : 0;
}

static int refuse(const char *word, const char *reason)
{
        return printf("%s %s\n", word, reason) < 0 || fflush(stdout) == EOF ? -EPIPE : 0;
}

static int open_player(struct player *player)
{
        uint64_t start;
        int r;

        if (!player->allocator)
                return 0;
        r = stage_init(&player->stage);
        if (r)
                return player_explain(player, r, stage_failure());
        start = clock_now_ns();
        r = player->allocator->open(player);
        player->connect_ns = (double)(clock_now_ns() - start);
        return r;
}

static const struct order *find_order(const struct order *const lists[2], const char *word)
{
        for (unsigned i = 0; i < 2 && lists[i]; i++) {
                for (const struct order *order = lists[i]; order->word; order++) {
                        if (strcmp(order->word, word) == 0)
                                return order;
                }
        }
        return NULL;
}

static int obey(struct player *player, const struct order *const lists[2], char *line)
{
        char *argument = line + strcspn(line, " "), text[RIVAL_TEXT_MAX];
        double numbers[RIVAL_NUMBERS_MAX] = {0};
        const struct order *order;
        int r;

        if (*argument)
                *argument++ = 0;
        order = find_order(lists, line);
        if (!order)
                return refuse("no", "it has no such thing");
        player->reason[0] = 0;
        r = order->run(player, argument, numbers);
        if (r)
                return refuse("no", explain(player, r));
        (void)snprintf(text, sizeof(text), "ok %.9g %.9g %.9g %.9g", numbers[0], numbers[1],
                       numbers[2], numbers[3]);
        return answer(text);
}

static int serve(struct player *player, const struct order *const lists[2])
{
        char line[RIVAL_TEXT_MAX];
        int r = open_player(player);

        if (r)
                return refuse("none", explain(player, r));
        r = answer("ready");
        while (!r && fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = 0;
                r = obey(player, lists, line);
        }
        if (player->allocator && player->allocator->close)
                player->allocator->close(player);
        return r;
}

int rival_main(char **arguments)
{
        struct player player = {.started_ns = clock_now_ns()};

        if (!arguments[0])
                return EXIT_FAILURE;
        player.socket_path = arguments[1];
        for (unsigned i = 0; i < ARRAY_SIZE(plays); i++) {
                if (strcmp(rival_name(plays[i].kind), arguments[0]) != 0)
                        continue;
                player.allocator = plays[i].allocator;
                return serve(&player, plays[i].orders) ? EXIT_FAILURE : EXIT_SUCCESS;
        }
        return EXIT_FAILURE;
}
