/* SPDX-License-Identifier: Apache-2.0 */
/* A request whose answer is made in parts, since it looks at all clients, blocks or tenants: each step looks at 64 of
 * them, and is the asker's. Meanwhile the asker's next frames wait. On the loop. */
#pragma once

#include "base/numbered.h"
#include "daemon/server/session/session.h"

struct walk {
        struct task task;
        LIST_ENTRY(walk) link; /* among the asker's */
        struct session *asker;
        struct frame request;
        /* One after the other, and then NULL. Each is called until it returns false: it has no more to do. */
        bool (*const *parts)(struct walk *walk);
        struct numbered_walk place; /* of the present one */
        bool has_rested;            /* it took more than one step */
        void (*free)(struct walk *walk);
};

/* `take_walk` is freed in the end, by `free`. */
void walk_begin(struct session *asker, const struct frame *request, struct walk *take_walk,
                bool (*const *parts)(struct walk *walk), void (*free)(struct walk *walk));

/* The next session of this part; NULL: the part is over. */
struct session *walk_next_session(struct walk *walk);
bool walk_has_more_sessions(const struct walk *walk);

/* The session speaks no more: nothing is answered to it. */
void walk_forget_all(struct session *session);
