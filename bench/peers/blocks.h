/* What the orders that gpumemd alone answers have in common. */
#pragma once

#include "bench/bare.h"
#include "bench/peers/player.h"

/* A link of its own to the daemon. */
int blocks_link(struct player *player, struct bare *ret_bare);

/* bench/peers/play.c's. */
int order_trace(struct player *player, const char *argument, double ret_numbers[static 3]);
int order_play(struct player *player, const char *argument, double ret_numbers[static 1]);
int order_go(struct player *player, const char *argument, double ret_numbers[static 2]);
