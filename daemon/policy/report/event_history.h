/* SPDX-License-Identifier: Apache-2.0 */
/* What happened: a bounded memory of it, for people who ask later. Pure; one thread.
 *
 * There are so many rows, all asked for at the beginning. Each stands in a lane: a tenant has one lane for what it
 * used and one for what went wrong, and the node has one. When all rows are taken, the user that has most rows loses
 * the oldest one of its longest lane. So a tenant that causes many events pushes out its own, and a user with many
 * tenants no other user's; grants push no refusal out. An eighth of the rows is the node's, however many users there
 * are. A ring for each user would not do: on many nodes all containers run as one user, and a container has as many
 * users as it likes.
 *
 * Events of one client that are alike and come within a second are one row. What has gone is counted. Only that a
 * device does not clear memory is never forgotten: it has one row a pool. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/state/public_types.h"
#include "proto/listing.h"

#define EVENT_HISTORY_ROWS 4096

/* Events that come so soon after the first of a row are of it, if they are alike. */
#define EVENT_HISTORY_ALIKE_NS UINT64_C(1000000000)

/* So many rows of its lane are scanned for that. */
#define EVENT_HISTORY_SCANS 32

#define EVENT_HISTORY_TEXT_MAX    400
#define EVENT_HISTORY_PROGRAM_MAX 32

struct event_history;
struct event_history_lane;

struct noted_event {
        uint64_t number; /* it gets this one, if that is to come yet; else the next */
        enum listed_event what;
        uint32_t pid;        /* 0: none */
        uint32_t pool;       /* POLICY_ALL_POOLS: none, or several */
        uint32_t code;       /* of a refusal */
        uint32_t reason;     /* likewise */
        uint64_t n_bytes;    /* that it is about */
        const char *program; /* NULL: none. Cut to fit, as is the text */
        const char *text;    /* likewise */
};

struct event_history_row {
        uint64_t number; /* of the last of those that it stands for */
        uint64_t first;  /* of the first */
        uint64_t last_ns;
        uint64_t first_ns;
        uint32_t times;
        enum listed_event what;
        uint32_t pid;
        uint32_t pool;
        uint32_t code;
        uint32_t reason;
        uint64_t n_bytes; /* of all; of refusals the last */
        char program[EVENT_HISTORY_PROGRAM_MAX];
        char text[EVENT_HISTORY_TEXT_MAX];
        struct event_history_lane *lane;
        TAILQ_ENTRY(event_history_row) link; /* in the order of numbers */
        TAILQ_ENTRY(event_history_row) lane_link;
};

/* With so many rows, 1 at least. The first event gets that number, 1 at least, and each one a higher one: the next, or
 * as it says. */
int event_history_new(uint32_t n_rows, uint64_t first_number, struct event_history **ret_history);
struct event_history *event_history_free(struct event_history *history);

/* Of that tenant; NULL: of nobody's, with a kind that is of the node. Never fails: what there is no memory for
 * counts as lost. */
void event_history_note(struct event_history *history, const struct tenant_key *key,
                        const struct noted_event *event, uint64_t now_ns);

/* The first row with that number or a higher one, and the next; NULL: none. */
const struct event_history_row *event_history_find(const struct event_history *history,
                                                   uint64_t number);
const struct event_history_row *event_history_next(const struct event_history_row *row);

/* Whose it is; NULL: everybody's. */
const struct tenant_key *event_history_whose(const struct event_history_row *row);

/* What the next event gets at least. */
uint64_t event_history_end(const struct event_history *history);

/* Events that are not kept any more: of everybody (NULL), or such as concern that tenant. Those of lanes of which
 * nothing is kept are of nobody that is known any more, and counted for each. */
uint64_t event_history_lost(const struct event_history *history, const struct tenant_key *key);

void event_history_check(const struct event_history *history);
