/* SPDX-License-Identifier: Apache-2.0 */
/* What processes say and do to the daemon: one deed, of which the input decides everything. */
#pragma once

#include "daemon/server/core/server_state.h"
#include "tests/fuzz/peers.h"

struct world {
        struct input *input;
        struct server *server;
        unsigned n_steps;
        unsigned n_turns;
};

void deeds_do(struct world *world);

/* Bytes, mostly of a few blocks. */
uint64_t deeds_any_bytes(struct world *world);
