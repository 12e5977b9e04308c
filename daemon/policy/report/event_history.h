/* SPDX-License-Identifier: Apache-2.0 */
/* The event history: a bounded memory of past events, for people who ask later. Pure; one thread.
 *
 * The number of rows is fixed, and all are allocated at the start. Each row is in a lane: a tenant has one
 * lane for normal use and one for trouble, and the node has one. When all rows are in use, the user with
 * the most rows loses the oldest row of its longest lane. So a tenant with many events pushes out its own,
 * a user with many tenants pushes out no other user's events, and grants push out no refusals. An eighth of
 * the rows is for the node. A ring for each user would not do: on many nodes all containers run as one
 * user, and a container can have any number of uids.
 *
 * Similar events of one client within a second share a row. Lost events are counted. Only the event that a
 * device does not clear memory is never lost: it has one row for each pool. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/state/public_types.h"
#include "proto/listing.h"
#include "proto/messages.h"

#define EVENT_HISTORY_ROWS 4096

/* Similar events within this time after the first share its row. */
#define EVENT_HISTORY_ALIKE_NS UINT64_C(1000000000)

/* Rows of the lane that are checked for that. */
#define EVENT_HISTORY_SCANS 32

/* A row whose number grows keeps its place until the number is so much above that: rows of leases, which follow each other
 * in microseconds, would else change places at each. */
#define EVENT_HISTORY_NEAR UINT64_C(100000)

#define EVENT_HISTORY_TEXT_MAX    400
#define EVENT_HISTORY_PROGRAM_MAX 32

struct event_history;
struct event_history_lane;

struct noted_event {
        uint64_t number; /* the event's number, unless it is too low: then the next one */
        enum listed_event what;
        uint64_t owner;  /* a number of the tenant's owner: see objects/owner.h; below UINT64_MAX */
        uint64_t client; /* of a refusal: the client's number; 0: it has none */
        uint32_t pid;    /* 0: none */
        uint32_t pool;   /* POLICY_ALL_POOLS: none, or several */
        uint32_t code;   /* of a refusal */
        uint32_t reason; /* of a refusal */
        uint64_t n_bytes;    /* meaning depends on the event */
        const char *program; /* NULL: none. Cut to fit, like the text */
        const char *text;    /* NULL: none */
        const struct message_refused_facts
                *refused; /* of a refusal, instead of a text; NULL: none */
        /* A client's row of such events: where to look first, and set to the row of this event. NULL: look among the
         * lane's last rows. */
        struct event_history_row **own;
};

struct event_history_row {
        uint64_t number; /* of the last event of the row */
        uint64_t first;  /* of the first event of the row */
        uint64_t last_ns;
        uint64_t first_ns;
        uint32_t times;
        enum listed_event what;
        uint64_t client;
        uint32_t pid;
        uint32_t pool;
        uint32_t code;
        uint32_t reason;
        uint64_t n_bytes;                /* sum over the events; for refusals of the last one */
        uint64_t placed;                 /* its number when it came to its place among the rows */
        struct event_history_lane *lane; /* NULL: the row is not used */
        uint64_t n_least_bytes, n_most_bytes; /* of refusals; otherwise 0 */
        char program[EVENT_HISTORY_PROGRAM_MAX];
        bool has_facts; /* a refusal: its text is made of them when it is listed */
        union {
                char text[EVENT_HISTORY_TEXT_MAX];
                struct message_refused_facts refused;
        };
        TAILQ_ENTRY(event_history_row) link; /* sorted by `placed` */
        TAILQ_ENTRY(event_history_row) lane_link;
};

/* Makes a history of n_rows rows, at least 1. The first event gets first_number, at least 1; each later one
 * gets a higher number: the next one, or the one that it sets. */
int event_history_new(uint32_t n_rows, uint64_t first_number, struct event_history **ret_history);
struct event_history *event_history_free(struct event_history *history);

/* Notes an event of that tenant; NULL: of the node, with a kind for the node. Never fails: without memory,
 * the event counts as lost. */
void event_history_note(struct event_history *history, const struct tenant_key *key,
                        const struct noted_event *event, uint64_t now_ns);

/* The last row, and the one before a row, in the order of `placed`; NULL: none. */
const struct event_history_row *event_history_last(const struct event_history *history);
const struct event_history_row *event_history_before(const struct event_history_row *row);

/* Whether this row, or one before it, may be of an event of that number or a later one. */
static inline bool event_history_may_reach(const struct event_history_row *row, uint64_t number)
{
        return row->placed + EVENT_HISTORY_NEAR > number;
}

/* Row `at` of so many, in no order: a row keeps its place while its number changes. NULL: it is not in use. */
uint32_t event_history_n_places(const struct event_history *history);
const struct event_history_row *event_history_at(const struct event_history *history, uint32_t at);

/* The tenant of the row; NULL: every tenant may see it. */
const struct tenant_key *event_history_whose(const struct event_history_row *row);

/* The lowest number that the next event can get. */
uint64_t event_history_end(const struct event_history *history);

/* Events that were lost: all (NULL), or those that the tenant may see. Losses from lanes that no longer
 * exist cannot be assigned to a tenant, and are counted for each. */
uint64_t event_history_lost(const struct event_history *history, const struct tenant_key *key);

void event_history_check(const struct event_history *history);
