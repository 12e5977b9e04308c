/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that asks the daemon, so that the HTTP thread need not wait for replies. One question at a time.
 *
 * All functions must be called by the same thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "metrics/metrics.h"

struct asker;

/* What the thread asks for. The texts must outlive the asker. */
struct asker_wish {
        const char *socket_path;
        uint32_t answer_ms;
        bool with_tenants;
};

/* is_up is false if the daemon did not answer. The caller of asker_take owns the figures. */
struct asker_answer {
        struct metrics_figures figures;
        uint64_t incarnation; /* of the daemon that answered; 0: none */
};

int asker_new(const struct asker_wish *wish, struct asker **ret_asker);

/* Readable once an answer is there. The asker keeps the fd. */
int asker_fd(const struct asker *asker);

/* Starts a question, unless one is under way. True: started. */
bool asker_want(struct asker *asker);

/* Takes the answer. False: there is none, or it was taken already. */
bool asker_take(struct asker *asker, struct asker_answer *ret_answer);

/* Does not wait for a thread that waits for a silent daemon: the thread and its memory stay until the
 * process ends. NULL is legal; returns NULL. */
struct asker *asker_free(struct asker *asker);
