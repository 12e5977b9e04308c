/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that asks the daemon, so that nobody else waits for it: one question at a time.
 *
 * All calls are the same thread's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "metrics/metrics.h"

struct asker;

/* What it asks. Texts live as long as the asker. */
struct asker_wish {
        const char *socket_path;
        uint32_t answer_ms;
        bool with_tenants;
};

/* An answer; without is_up nobody answered. The figures are whoever's took it. */
struct asker_answer {
        struct metrics_figures figures;
        uint64_t incarnation; /* of the daemon that answered; 0: none */
};

int asker_new(const struct asker_wish *wish, struct asker **ret_asker);

/* Can be read from once an answer is there. Stays the asker's. */
int asker_fd(const struct asker *asker);

/* Begins to ask, unless that is under way. True: it was not. */
bool asker_want(struct asker *asker);

/* The answer, if one has come that nobody took. */
bool asker_take(struct asker *asker, struct asker_answer *ret_answer);

/* A thread that waits for a silent daemon is not waited for: it ends with the process, and what is its
 * stays until then. NULL is legal; returns NULL. */
struct asker *asker_free(struct asker *asker);
