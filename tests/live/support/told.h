/* SPDX-License-Identifier: Apache-2.0 */
/* The replies to EVENTS, over a connection of the test's own. Failures end the test. */
#pragma once

#include <stdint.h>

#include "client/connection/link.h"
#include "proto/listing.h"

struct told {
        struct event_row *rows;
        uint32_t n_rows;
        uint64_t next;
        uint64_t end;
        uint64_t n_lost;
};

/* `kinds` as in EVENTS. */
struct told told_fetch(struct link *link, uint64_t since, uint32_t kinds);
void told_free(struct told *told);

#define TOLD_BIT(what) (UINT32_C(1) << LISTED_EVENT_##what)

/* The last event of that kind, that process (0: any) and that user, over the admin socket; waits for it, at
 * most 20 s. */
struct event_row told_await(enum listed_event what, uint32_t pid, uint32_t uid);
