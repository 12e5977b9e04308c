/* SPDX-License-Identifier: Apache-2.0 */
/* Messages alone as a rival: what the kernel takes of gpumemd's figures. */
#include <string.h>

#include "base/err.h"
#include "bench/echo.h"
#include "bench/peers/player.h"
#include "bench/timing.h"

#define N_STEPS 4

static int open_echo(struct player *player)
{
        static struct echo echo;
        int r = echo_init(&echo);

        player->self = &echo;
        return r;
}

static void close_echo(struct player *player)
{
        echo_deinit(player->self);
}

static const char *explain(int r)
{
        return strerror(-r);
}

const struct allocator allocator_echo = {
        .has_no_device = true,
        .open = open_echo,
        .close = close_echo,
        .explain = explain,
};

static int known_steps(void *state, unsigned n_steps)
{
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = echo_known(state);
        return r;
}

/* known BYTES: ns of the messages of such a lease. */
static int order_known(struct player *player, const char *argument, double *ret_ns)
{
        (void)argument;
        return time_repetition(known_steps, player->self, N_STEPS, ret_ns);
}

const struct order orders_echo[] = {{"known", order_known}, {NULL, NULL}};
