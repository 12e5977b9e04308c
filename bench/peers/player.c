/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of rival.h: reads orders and answers them. */
#include "bench/peers/player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"

static const struct {
        enum rival_kind kind;
        const struct allocator *allocator;
        const struct order *orders[2]; /* the first that has the word */
} plays[] = {
        {RIVAL_GPUMEMD, &allocator_gpumemd, {orders_gpumemd, orders_common}},
        {RIVAL_HANDLE, &allocator_handle, {orders_common}},
        {RIVAL_DRIVER, &allocator_driver, {orders_common}},
        {RIVAL_ASYNC, &allocator_async, {orders_common}},
        {RIVAL_ECHO, &allocator_echo, {orders_echo}},
};

int player_explain(struct player *player, int r, const char *reason)
{
        (void)snprintf(player->reason, ROW_NOTE_MAX, "%.*s", ROW_NOTE_MAX - 1, reason);
        return r;
}

static const char *explain(const struct player *player, int r)
{
        return player->reason[0] ? player->reason : player->allocator->explain(r);
}

static int answer(const char *word, const char *rest)
{
        return printf("%s %s\n", word, rest) < 0 || fflush(stdout) == EOF ? -EPIPE : 0;
}

int player_enter(const struct player *player)
{
        return CUDA_CALL(&player->cuda, cuCtxSetCurrent, player->context);
}

static int open_device(struct player *player)
{
        char reason[CUDA_REASON_MAX];
        int r = cuda_load(NULL, &player->cuda, reason);

        if (r)
                return player_explain(player, r, reason);
        r = CUDA_CALL(&player->cuda, cuDeviceGet, &player->device, 0);
        if (!r)
                r = CUDA_CALL(&player->cuda, cuDevicePrimaryCtxRetain, &player->context,
                              player->device);
        if (!r)
                r = player_enter(player);
        for (unsigned i = 0; i < PLAYER_STREAMS && !r; i++)
                r = CUDA_CALL(&player->cuda, cuStreamCreate, &player->streams[i],
                              CU_STREAM_NON_BLOCKING);
        return r ? player_explain(player, r, cuda_failure()) : 0;
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
        char *argument = line + strcspn(line, " "), text[32];
        const struct order *order;
        double number = 0;
        int r;

        if (*argument)
                *argument++ = 0;
        order = find_order(lists, line);
        if (!order)
                return answer("no", "unknown order");
        player->reason[0] = 0;
        r = order->run(player, argument, &number);
        if (r)
                return answer("no", explain(player, r));
        (void)snprintf(text, sizeof(text), "%.9g", number);
        return answer("ok", text);
}

static int serve(struct player *player, const struct order *const lists[2])
{
        char line[RIVAL_TEXT_MAX];
        int r = player->allocator->has_no_device ? 0 : open_device(player);

        if (!r)
                r = player->allocator->open(player);
        if (r)
                return answer("none", explain(player, r));
        r = answer("ready", "");
        while (!r && fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = 0;
                r = obey(player, lists, line);
        }
        if (player->allocator->close)
                player->allocator->close(player);
        return r;
}

int rival_main(char **arguments)
{
        struct player player = {.reason = ""};

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
