/* SPDX-License-Identifier: Apache-2.0 */
/* EVENTS: the events that the daemon remembers. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/policy/report/event_history.h"
#include "daemon/server/lists/rows.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/reply_files.h"
#include "gpumem.h"
#include "proto/refusal_text.h"

/* Rows of a reply, without those of other tenants. Few, since no other client is served while they are made. */
#define ROWS_MAX 64

/* A text that is made of facts takes as long as so many rows. */
#define ROWS_A_TEXT 4

struct walk {
        const struct session *asker;
        uint64_t now_ns;
        uint32_t kinds; /* 0: all */
        uint64_t next;
        struct row_buffer buffer;
        struct event_row others[LISTED_EVENT_N];
};

static uint64_t age_ms(const struct walk *walk, uint64_t since_ns)
{
        return walk->now_ns > since_ns ? (walk->now_ns - since_ns) / NS_PER_MS : 0;
}

static void add_row(struct walk *walk, const struct event_history_row *kept)
{
        const struct server *server = walk->asker->server;
        const struct tenant_key *whose = event_history_whose(kept);
        struct event_row row = {
                .event = kept->number,
                .first = kept->first,
                .age = age_ms(walk, kept->last_ns),
                .first_age = age_ms(walk, kept->first_ns),
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

        proto_put_text(row.program, sizeof(row.program), kept->program);
        if (kept->has_facts)
                refusal_text(&kept->refused, row.text);
        else
                proto_put_text(row.text, sizeof(row.text), kept->text);
        if (whose)
                cgroup_container_name(whose->realm, row.container);
        (void)row_buffer_add(&walk->buffer, &row);
}

static void add_to_others(struct walk *walk, const struct event_history_row *kept)
{
        struct event_row *row = &walk->others[kept->what];

        if (__builtin_add_overflow(row->times, kept->times, &row->times))
                row->times = UINT32_MAX;
        /* How much another tenant asked for and did not get is not shown. */
        if (kept->what != LISTED_EVENT_REFUSED &&
            __builtin_add_overflow(row->bytes, kept->n_bytes, &row->bytes))
                row->bytes = UINT64_MAX;
}

static void add_others(struct walk *walk)
{
        for (unsigned what = 0; what < LISTED_EVENT_N; what++) {
                struct event_row *row = &walk->others[what];

                if (!row->times)
                        continue;
                row->what = what;
                row->age = row->first_age = LISTING_UNTOLD;
                row->uid = row->pool = LISTING_NOBODY;
                proto_put_text(row->program, sizeof(row->program), "(other tenants)");
                (void)row_buffer_add(&walk->buffer, row);
        }
}

static bool shows(const struct walk *walk, const struct event_history_row *row)
{
        const struct tenant_key *whose = event_history_whose(row);

        return !whose || authorization_sees_all(walk->asker) ||
               memcmp(whose, client_tenant_key(walk->asker->client), sizeof(*whose)) == 0;
}

static bool is_asked_for(const struct walk *walk, const struct event_history_row *row)
{
        return !walk->kinds || walk->kinds & (UINT32_C(1) << row->what);
}

/* Sums over all remembered events: sums over a part would reveal single events. */
static void sum_others(struct walk *walk)
{
        const struct event_history_row *row = event_history_find(walk->asker->server->history, 0);

        if (authorization_sees_all(walk->asker))
                return;
        for (; row; row = event_history_next(row)) {
                if (is_asked_for(walk, row) && !shows(walk, row))
                        add_to_others(walk, row);
        }
        add_others(walk);
}

static void list(struct walk *walk, uint64_t since)
{
        const struct event_history *history = walk->asker->server->history;
        const struct event_history_row *row = event_history_find(history, since);
        unsigned n = 0;

        for (; row && n < ROWS_MAX; row = event_history_next(row)) {
                if (!is_asked_for(walk, row) || !shows(walk, row))
                        continue;
                add_row(walk, row);
                n += row->has_facts ? ROWS_A_TEXT : 1;
        }
        walk->next = row ? row->number : event_history_end(history);
        if (!since)
                sum_others(walk);
}

static uint64_t count_lost(const struct session *asker)
{
        return event_history_lost(asker->server->history,
                                  authorization_sees_all(asker) ? NULL
                                                                : client_tenant_key(asker->client));
}

static int make_file(struct walk *walk, uint64_t since, struct session *session, int *ret_fd)
{
        list(walk, since);
        while (row_buffer_write_some(&walk->buffer))
                ;
        return row_buffer_take_file(&walk->buffer, session, ret_fd);
}

void list_events_take(struct session *session, const struct frame *frame)
{
        CLEANUP(closep)
        int fd = -1;
        struct frame reply = FRAME_NULL;
        struct walk walk = {.asker = session,
                            .now_ns = server_now_ns(session->server),
                            .kinds = frame->events.kinds,
                            .buffer = {.n_row_bytes = sizeof(struct event_row)}};

        if (make_file(&walk, frame->events.since, session, &fd)) {
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "out of memory in gpumemd");
        } else {
                reply.events_reply = (struct message_events_reply){
                        .n_rows = walk.buffer.n_rows,
                        .n_row_bytes = sizeof(struct event_row),
                        .next = walk.next,
                        .end = event_history_end(session->server->history),
                        .n_lost = count_lost(session),
                };
                session_send(session, &reply, MESSAGE_EVENTS_REPLY, frame->serial, &fd, 1);
        }
        row_buffer_clear(&walk.buffer);
}
