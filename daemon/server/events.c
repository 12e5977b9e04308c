#include "daemon/server/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "daemon/server/answers.h"
#include "daemon/server/listing.h"
#include "daemon/server/paying.h"
#include "gpumem.h"

/* In one answer, beside those of other tenants: what is short to make, as nobody else is served meanwhile. */
#define ROWS_MAX 64
#define ROOM     (ROWS_MAX + LISTED_EVENT_N)

static void on_revoked(void *argument, const struct client *client, uint32_t pool, uint64_t n_bytes)
{
        (void)argument;
        events_note(client_owner(client), LISTED_EVENT_REVOKED, pool, n_bytes, NULL);
}

/* Registering pinned memory is dear: a process that works keeps it so. */
static void on_late(void *argument, const struct client *client, uint32_t pool, uint64_t n_bytes)
{
        const struct session *session = client_owner(client);
        bool is_pinned = session->server->pools[pool].row.kind == GPUMEM_PINNED;

        (void)argument;
        events_note(session, LISTED_EVENT_LATE, pool, n_bytes,
                    is_pinned
                            ? "the process keeps it registered: until it calls gpumem_flush, ends, "
                              "or needs it again"
                            : "the process does not answer: is it stopped, or does it hang?");
}

/* Microseconds since 1970: so a number says when it was, as the log does, and there are fewer events than these
 * in any run: no later one uses a number again. */
static uint64_t number_now(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int events_open(struct server *server)
{
        const struct policy_witness witness = {.revoked = on_revoked, .late = on_late};
        int r = history_new(HISTORY_ROWS, number_now(), &server->history);

        if (!r)
                policy_set_witness(server->policy, &witness);
        return r;
}

void events_close(struct server *server)
{
        server->history = history_free(server->history);
}

static struct history_event describe(const struct session *session, enum listed_event what)
{
        return (struct history_event){
                .number = number_now(),
                .what = what,
                .pid = (uint32_t)session->peer.pid,
                .pool = PROTO_ALL_POOLS,
                .program = session->program,
        };
}

/* Before HELLO it is no tenant yet; but its account is named as that will be. */
static void note(const struct session *session, const struct history_event *event)
{
        struct tenant_key key = {.uid = session->peer.uid};
        const struct tenant_key *tenant = &key;

        if (session_has_client(session))
                tenant = client_tenant_key(session->client);
        else
                memcpy(key.realm, session->account->realm, sizeof(key.realm));
        history_note(session->server->history, tenant, event, server_now_ns(session->server));
}

void events_note(const struct session *session, enum listed_event what, uint32_t pool,
                 uint64_t n_bytes, const char *text)
{
        struct history_event event = describe(session, what);

        event.pool = pool;
        event.n_bytes = n_bytes;
        event.text = text;
        note(session, &event);
}

void events_note_refusal(const struct session *session, uint32_t pool, uint64_t n_bytes,
                         uint32_t code, enum proto_refused reason, const char *text)
{
        struct history_event event = describe(session, LISTED_EVENT_REFUSED);

        event.pool = pool;
        event.n_bytes = n_bytes;
        event.code = code;
        event.reason = reason;
        event.text = text;
        note(session, &event);
}

void events_note_denial(const struct session *session, uint32_t code, const char *text)
{
        struct history_event event = describe(session, LISTED_EVENT_DENIED);

        event.code = code;
        event.text = text;
        note(session, &event);
}

void events_note_stranger(struct server *server, const struct account *account,
                          const struct peer *peer, const char *text)
{
        struct tenant_key key = {.uid = peer ? peer->uid : LISTING_NOBODY};
        const struct history_event event = {.number = number_now(),
                                            .what = LISTED_EVENT_TURNED_AWAY,
                                            .pid = peer ? (uint32_t)peer->pid : 0,
                                            .pool = PROTO_ALL_POOLS,
                                            .text = text};

        if (account)
                memcpy(key.realm, account->realm, sizeof(key.realm));
        history_note(server->history, &key, &event, server_now_ns(server));
}

void events_note_node(struct server *server, enum listed_event what, uint32_t pool,
                      const char *format, ...)
{
        char text[HISTORY_TEXT_MAX];
        const struct history_event event = {
                .number = number_now(), .what = what, .pool = pool, .text = text};
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        history_note(server->history, NULL, &event, server_now_ns(server));
}

void events_note_left(const struct session *session, enum listed_event what, const char *text)
{
        uint64_t n_bytes = 0;

        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                n_bytes += client_charged(session->client, pool);
        if (n_bytes || what != LISTED_EVENT_LINGERING)
                events_note(session, what, PROTO_ALL_POOLS, n_bytes, text);
}

struct walk {
        const struct session *asker;
        uint64_t now_ns;
        uint32_t kinds; /* 0: all */
        uint64_t next;
        uint32_t n_looked; /* rows that were looked at */
        struct row_buffer buffer;
        struct event_row others[LISTED_EVENT_N];
};

static uint64_t age_ms(const struct walk *walk, uint64_t since_ns)
{
        return walk->now_ns > since_ns ? (walk->now_ns - since_ns) / NS_PER_MS : 0;
}

static void add_row(struct walk *walk, const struct history_row *kept)
{
        const struct server *server = walk->asker->server;
        const struct tenant_key *whose = history_whose(kept);
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
        };

        proto_put_text(row.program, sizeof(row.program), kept->program);
        proto_put_text(row.text, sizeof(row.text), kept->text);
        if (whose)
                container_name(whose->realm, row.container);
        row_buffer_add(&walk->buffer, &row);
}

static void add_to_others(struct walk *walk, const struct history_row *kept)
{
        struct event_row *row = &walk->others[kept->what];

        if (__builtin_add_overflow(row->times, kept->times, &row->times))
                row->times = UINT32_MAX;
        /* What was asked for, and not had, is told nobody else. */
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
                row_buffer_add(&walk->buffer, row);
        }
}

static bool shows(const struct walk *walk, const struct history_row *row)
{
        const struct tenant_key *whose = history_whose(row);

        return !whose || session_sees_all(walk->asker) ||
               memcmp(whose, client_tenant_key(walk->asker->client), sizeof(*whose)) == 0;
}

static bool is_asked_for(const struct walk *walk, const struct history_row *row)
{
        return !walk->kinds || walk->kinds & (UINT32_C(1) << row->what);
}

/* Of all that is remembered: the sums of a part would tell single ones apart. */
static void sum_others(struct walk *walk)
{
        const struct history_row *row = history_find(walk->asker->server->history, 0);

        if (session_sees_all(walk->asker))
                return;
        for (; row; row = history_next(row), walk->n_looked++) {
                if (is_asked_for(walk, row) && !shows(walk, row))
                        add_to_others(walk, row);
        }
        add_others(walk);
}

static void list(struct walk *walk, uint64_t since)
{
        const struct history *history = walk->asker->server->history;
        const struct history_row *row = history_find(history, since);

        for (; row && walk->buffer.n_rows < ROWS_MAX; row = history_next(row), walk->n_looked++) {
                if (is_asked_for(walk, row) && shows(walk, row))
                        add_row(walk, row);
        }
        walk->next = row ? row->number : history_end(history);
        if (!since)
                sum_others(walk);
}

static uint64_t count_lost(const struct session *asker)
{
        return history_lost(asker->server->history,
                            session_sees_all(asker) ? NULL : client_tenant_key(asker->client));
}

void events_take(struct session *session, const struct frame *frame)
{
        CLEANUP(closep)
        int fd = -1;
        struct frame reply = FRAME_NULL;
        size_t n_row_bytes = sizeof(struct event_row);
        struct walk walk = {.asker = session,
                            .now_ns = server_now_ns(session->server),
                            .kinds = frame->events.kinds,
                            .buffer = {.rows = malloc(ROOM * n_row_bytes),
                                       .n_row_bytes = n_row_bytes,
                                       .n_room = ROOM}};

        walk.buffer.failed = !walk.buffer.rows;
        if (!walk.buffer.failed)
                list(&walk, frame->events.since);
        paying_take_rows(session, walk.buffer.n_rows, walk.n_looked);
        if (walk.buffer.failed || answers_make(session, walk.buffer.rows,
                                               walk.buffer.n_rows * walk.buffer.n_row_bytes, &fd)) {
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "the daemon has no memory for a reply");
        } else {
                reply.events_reply = (struct message_events_reply){
                        .n_rows = walk.buffer.n_rows,
                        .n_row_bytes = sizeof(struct event_row),
                        .next = walk.next,
                        .end = history_end(session->server->history),
                        .n_lost = count_lost(session),
                };
                session_send(session, &reply, MESSAGE_EVENTS_REPLY, frame->serial, &fd, 1);
        }
        row_buffer_deinit(&walk.buffer);
}
