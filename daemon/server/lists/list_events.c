/* SPDX-License-Identifier: Apache-2.0 */
/* EVENTS: the events that the daemon remembers. A client that follows them asks for the last ones, which one step finds.
 * Otherwise each step looks at some of all rows, and keeps those with the lowest numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/policy/report/event_history.h"
#include "daemon/server/lists/rows.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/request_walk.h"
#include "proto/refusal_text.h"

/* Rows of a reply, without those of other tenants. */
#define ROWS_MAX PART_ITEMS

/* A text that is made of facts takes as long as so many rows. */
#define ROWS_A_TEXT 4

struct found_row {
        uint64_t
                number; /* when it was found: if it is another by now, the row is of a later event */
        const struct event_history_row *row;
};

struct event_listing {
        struct walk walk;
        uint64_t now_ns;
        uint64_t since, end; /* events of these numbers, from and before */
        bool has_all;        /* of them */
        unsigned n_found, n_added;
        struct found_row found[ROWS_MAX]; /* by number */
        struct row_buffer rows;
        struct event_row others[LISTED_EVENT_N];
};

static struct event_listing *listing_of_walk(struct walk *walk)
{
        return CONTAINER_OF(walk, struct event_listing, walk);
}

static uint64_t age_ms(const struct event_listing *listing, uint64_t since_ns)
{
        return listing->now_ns > since_ns ? (listing->now_ns - since_ns) / NS_PER_MS : 0;
}

static void add_row(struct event_listing *listing, const struct event_history_row *kept)
{
        const struct server *server = listing->walk.asker->server;
        const struct tenant_key *whose = event_history_whose(kept);
        struct event_row row = {
                .event = kept->number,
                .first = kept->first,
                .age = age_ms(listing, kept->last_ns),
                .first_age = age_ms(listing, kept->first_ns),
                .what = kept->what,
                .times = kept->times,
                .uid = whose ? whose->uid : LISTING_NOBODY,
                .pid = kept->pid,
                .pool = kept->pool,
                .kind = kept->pool < server->n_pools ? server->pools[kept->pool].row.kind : 0,
                .code = kept->code,
                .reason = kept->reason,
                .bytes = kept->n_bytes,
                .least = kept->n_least_bytes,
                .most = kept->n_most_bytes,
        };

        proto_put_name(row.program, sizeof(row.program), kept->program);
        if (kept->has_facts)
                refusal_text(&kept->refused, row.text);
        else
                proto_put_text(row.text, sizeof(row.text), kept->text);
        if (whose)
                cgroup_container_name(whose->realm, row.container);
        (void)row_buffer_add(&listing->rows, &row);
}

static void add_to_others(struct event_listing *listing, const struct event_history_row *kept)
{
        struct event_row *row = &listing->others[kept->what];

        if (__builtin_add_overflow(row->times, kept->times, &row->times))
                row->times = UINT32_MAX;
        /* How much another tenant asked for and did not get is not shown. */
        if (kept->what != LISTED_EVENT_REFUSED &&
            __builtin_add_overflow(row->bytes, kept->n_bytes, &row->bytes))
                row->bytes = UINT64_MAX;
}

static bool shows(const struct session *asker, const struct event_history_row *row)
{
        const struct tenant_key *whose = event_history_whose(row);

        return !whose || authorization_sees_all(asker) ||
               memcmp(whose, client_tenant_key(asker->client), sizeof(*whose)) == 0;
}

static void keep(struct event_listing *listing, const struct event_history_row *row)
{
        unsigned at = listing->n_found;

        while (at && listing->found[at - 1].number > row->number)
                at--;
        if (at == ROWS_MAX)
                return;
        listing->n_found += listing->n_found < ROWS_MAX;
        memmove(&listing->found[at + 1], &listing->found[at],
                (listing->n_found - at - 1) * sizeof(listing->found[0]));
        listing->found[at] = (struct found_row){row->number, row};
}

static void look_at(struct event_listing *listing, const struct event_history_row *row)
{
        uint32_t kinds = listing->walk.request.events.kinds;

        if (row->number < listing->since || row->number >= listing->end ||
            (kinds && !(kinds & (UINT32_C(1) << row->what))))
                return;
        if (shows(listing->walk.asker, row))
                keep(listing, row);
        else
                add_to_others(listing, row);
}

static bool look_at_last(struct walk *walk)
{
        struct event_listing *listing = listing_of_walk(walk);
        const struct event_history_row *row = event_history_last(walk->asker->server->history);

        for (unsigned n = 0; row && event_history_may_reach(row, listing->since) && n < PART_ITEMS;
             n++) {
                look_at(listing, row);
                row = event_history_before(row);
        }
        listing->has_all = !row || !event_history_may_reach(row, listing->since);
        if (!listing->has_all) {
                listing->n_found = 0;
                memset(listing->others, 0, sizeof(listing->others));
        }
        return false;
}

static bool look_at_all(struct walk *walk)
{
        struct event_listing *listing = listing_of_walk(walk);
        const struct event_history *history = walk->asker->server->history;
        uint32_t n_places = event_history_n_places(history), *next = &walk->place.next;

        for (unsigned n = 0; !listing->has_all && *next < n_places && n < PART_ITEMS; n++) {
                const struct event_history_row *row = event_history_at(history, (*next)++);

                if (row)
                        look_at(listing, row);
        }
        return !listing->has_all && *next < n_places;
}

static bool add_rows(struct walk *walk)
{
        struct event_listing *listing = listing_of_walk(walk);
        unsigned cost = 0;

        while (listing->n_added < listing->n_found && cost < PART_ITEMS) {
                const struct found_row *found = &listing->found[listing->n_added++];

                if (found->row->number == found->number)
                        add_row(listing, found->row);
                cost += found->row->has_facts ? ROWS_A_TEXT : 1;
        }
        return listing->n_added < listing->n_found;
}

/* They are sums over all remembered events: sums over a part would reveal single events. */
static bool add_others(struct walk *walk)
{
        struct event_listing *listing = listing_of_walk(walk);

        for (unsigned what = 0; !listing->since && what < LISTED_EVENT_N; what++) {
                struct event_row *row = &listing->others[what];

                if (!row->times)
                        continue;
                row->what = what;
                row->age = row->first_age = LISTING_UNTOLD;
                row->uid = row->pool = LISTING_NOBODY;
                proto_put_text(row->program, sizeof(row->program), "(other tenants)");
                (void)row_buffer_add(&listing->rows, row);
        }
        return false;
}

static bool write_rows(struct walk *walk)
{
        return row_buffer_write_some(&listing_of_walk(walk)->rows);
}

static uint64_t count_lost(const struct session *asker)
{
        return event_history_lost(asker->server->history,
                                  authorization_sees_all(asker) ? NULL
                                                                : client_tenant_key(asker->client));
}

static bool reply(struct walk *walk)
{
        CLEANUP(closep)
        int fd = -1;
        struct event_listing *listing = listing_of_walk(walk);
        struct session *session = walk->asker;
        bool is_full = listing->n_found == ROWS_MAX;
        struct frame reply = FRAME_NULL;
        int r;

        r = row_buffer_take_file(&listing->rows, session, &fd);
        if (r) {
                row_buffer_refuse(&listing->rows, session, walk->request.serial, r);
                return false;
        }
        reply.events_reply = (struct message_events_reply){
                .n_rows = listing->rows.n_rows,
                .n_row_bytes = sizeof(struct event_row),
                .next = is_full ? listing->found[ROWS_MAX - 1].number + 1 : listing->end,
                .end = event_history_end(session->server->history),
                .n_lost = count_lost(session),
        };
        session_send(session, &reply, MESSAGE_EVENTS_REPLY, walk->request.serial, &fd, 1);
        return false;
}

static void free_listing(struct walk *walk)
{
        struct event_listing *listing = listing_of_walk(walk);

        row_buffer_clear(&listing->rows);
        free(listing);
}

void list_events_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {
                look_at_last, look_at_all, add_rows, add_others, write_rows, reply, NULL};
        struct event_listing *listing = calloc(1, sizeof(*listing));

        if (!listing) {
                session_refuse_for_memory(session, frame->serial);
                return;
        }
        listing->now_ns = server_now_ns(session->server);
        listing->since = frame->events.since;
        listing->end = event_history_end(session->server->history);
        row_buffer_init(&listing->rows, session, sizeof(struct event_row));
        walk_begin(session, frame, &listing->walk, parts, free_listing);
}
