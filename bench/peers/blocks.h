/* What the orders that gpumemd alone answers have in common. */
#pragma once

#include "bench/bare.h"
#include "bench/peers/player.h"

/* A link of its own to the daemon. */
int blocks_link(struct player *player, struct bare *ret_bare);

/* What the daemon holds of the first device, whoever has it, and the peak of that since it was reset: for
 * root and the daemon's own user. */
int reserved_reset(struct player *player);
int reserved_read(struct player *player, double *ret_bytes, double *ret_peak);

/* bench/peers/play.c's. */
int order_trace(struct player *player, const char *argument, double ret_numbers[static 4]);
int order_play(struct player *player, const char *argument, double ret_numbers[static 1]);
int order_go(struct player *player, const char *argument, double ret_numbers[static 2]);

/* bench/peers/first.c's. */
int order_calls(struct player *player, const char *argument, double ret_numbers[static 4]);
int order_call(struct player *player, const char *argument, double ret_numbers[static 4]);
