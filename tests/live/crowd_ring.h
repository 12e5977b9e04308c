/* SPDX-License-Identifier: Apache-2.0 */
/* How the crowd shares: each offers memory to the next, one piece at a time. Who gets an offer
 * attaches it, compares its bytes, writes others and says so; then the owner compares, and frees
 * while the other one still has it attached. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpumem.h"
#include "tests/live/crowd_memory.h"

struct crowd;

struct crowd_ring {
        int next_fd, last_fd; /* sockets to the neighbours */
        bool is_offering;
        struct crowd_memory offered;
        struct gpumem_token token;
        bool is_attached;
        struct crowd_memory attached;
        uint64_t attached_serial;
        bool last_has_ended;
};

/* Does what the neighbours' news ask for; does not wait. */
void crowd_ring_serve(struct crowd *crowd);

/* Offers such memory to the next. One offer must not be out already. */
void crowd_ring_offer(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                      uint64_t n_bytes);

/* Waits until the next has answered and the last offers no more; holds nothing afterwards. */
void crowd_ring_end(struct crowd *crowd);
