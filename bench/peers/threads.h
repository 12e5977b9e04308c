/* The hot pattern in several threads at once, each with a stream of its own. */
#pragma once

#include "bench/peers/player.h"

/* Pairs a microsecond of n_threads together, up to STAGE_STREAMS: a batch lasts until the slowest has
 * done its part. A few seconds, however slow it is. */
int threads_measure(struct player *player, unsigned n_threads, double *ret_rate);
