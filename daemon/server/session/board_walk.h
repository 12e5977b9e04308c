/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up what all clients report on their boards, a part of them at a time, and then answers a request. Meanwhile the
 * asker's next frames wait. A client that connects meanwhile does not count. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* What the clients that hold or held memory in a pool report. */
struct board_total {
        uint64_t n_clients; /* with a charge in the pool */
        uint64_t allocated, requested, hits, misses;
};

struct board_walk {
        struct task task;
        LIST_ENTRY(board_walk) link; /* in the server's list */
        struct session *asker;
        struct session *at; /* whose board is read next */
        struct frame request;
        void (*add)(const struct session *session, struct board_total *totals);
        void (*answer)(struct session *asker, const struct frame *request);
        struct board_total totals[]; /* by pool */
};

/* `add` adds a session's figures to all pools; `answer` is called with asker->board_walk, whose totals are complete. */
void board_walk_begin(struct session *asker, const struct frame *request,
                      void (*add)(const struct session *session, struct board_total *totals),
                      void (*answer)(struct session *asker, const struct frame *request));

/* The session is no longer listed: nothing is read of it, and nothing answered to it. */
void board_walk_forget(struct session *session);
