/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/process_sessions.h"
#include "daemon/server/session/reply_files.h"
#include "daemon/server/session/timeouts.h"
#include "daemon/server/session/request_walk.h"
#include "daemon/server/transport/slow_socket.h"
#include "gpumem.h"
#include "proto/board.h"

static const unsigned legal_next[SESSION_N_STATES] = {
        [SESSION_HELLO] = BIT(SESSION_READY) | BIT(SESSION_CLOSING),
        [SESSION_READY] = BIT(SESSION_LEFT) | BIT(SESSION_ORPHANED),
        [SESSION_LEFT] = BIT(SESSION_CLOSING),
        [SESSION_ORPHANED] = BIT(SESSION_CLOSING),
        [SESSION_CLOSING] = 0,
};

static const char *const state_names[SESSION_N_STATES] = {
        [SESSION_HELLO] = "hello",       [SESSION_READY] = "ready",     [SESSION_LEFT] = "left",
        [SESSION_ORPHANED] = "orphaned", [SESSION_CLOSING] = "closing",
};

static void set_state(struct session *session, enum session_state state)
{
        assert(legal_next[session->state] & BIT(state));
        log_debug("client %d (%s): %s -> %s", (int)session->peer.pid, session->program,
                  state_names[session->state], state_names[state]);
        session->state = state;
}

static void discharge_connection(struct session *session)
{
        due_end(&session->connection);
        session->process = process_leave(session->process, &session->member);
}

static void session_free(struct session *session)
{
        discharge_connection(session);
        session->account = account_unref(session->account);
        free(session);
}

static void let_go(struct session *session)
{
        assert(!session->marking.payer);
        slow_socket_close(session->server, session->account->payer.owner,
                          steal_fd(&session->peer.pidfd));
        free(session->draft);
        free(session->reclaim);
}

static void on_board_gone(struct board_file *board)
{
        session_free(CONTAINER_OF(board, struct session, board));
}

int session_open_boards(struct server *server)
{
        return board_files_open(server, on_board_gone);
}

/* What may take long counts as a connection of its user until then. */
static void end_board(struct session *session)
{
        switch (board_file_end(&session->board)) {
        case BOARD_FILE_IS_GONE:
                session_free(session);
                break;
        case BOARD_FILE_GOES_SOON:
                discharge_connection(session);
                break;
        case BOARD_FILE_GOES:
                break;
        }
}

void session_free_ended(struct server *server)
{
        while (!LIST_EMPTY(&server->ended_sessions)) {
                struct session *session = LIST_FIRST(&server->ended_sessions);

                LIST_REMOVE(session, link);
                let_go(session);
                end_board(session);
        }
}

static void unlist(struct session *session)
{
        LIST_REMOVE(session, link);
        numbered_remove(&session->server->sessions_by_number, session->number);
}

/* It is freed later, since functions that use it may be under way. */
static void free_later(struct session *session)
{
        unlist(session);
        LIST_INSERT_HEAD(&session->server->ended_sessions, session, link);
}

static void end_if_closed(struct session *session)
{
        if (session->is_closed && session->state == SESSION_CLOSING)
                free_later(session);
}

static void on_transport_closed(struct transport *transport)
{
        struct session *session = CONTAINER_OF(transport, struct session, transport);

        session->is_closed = true;
        end_if_closed(session);
}

static void stop_watching_process(struct session *session)
{
        fd_watch_end(&session->process_watch);
        payer_take_out(&session->process_end);
}

static void close_handles(struct session *session)
{
        bool was_closed = session->is_closed;

        set_state(session, SESSION_CLOSING);
        walk_forget_all(session);
        payer_take_out(&session->marking);
        reply_files_end(session);
        stop_watching_process(session);
        transport_close(&session->transport);
        if (was_closed)
                end_if_closed(session);
}

/* The other sign usually follows at once. It is noted as an event only if it does not (timeouts.c). */
static void begin_lingering(struct session *session, enum session_state state)
{
        set_state(session, state);
        walk_forget_all(session);
        session->lingers_since_ns = server_now_ns(session->server);
        timeouts_watch(session->server);
}

/* Leases that are ended in one step; fewer where blocks go back. */
#define LEASES_A_STEP 64

/* Tells the policy of the first sign. Returns whether there is more to do before that. */
static bool tell_first(struct session *session)
{
        struct server *server = session->server;
        uint64_t now_ns = server_now_ns(server);

        if (policy_client_drop_some(server->policy, session->client, LEASES_A_STEP, now_ns))
                return true;
        session->is_first_told = true;
        if (session->state == SESSION_ORPHANED) {
                (void)policy_client_dead(server->policy, session->client, now_ns);
                return false;
        }
        (void)policy_client_eof(server->policy, session->client, now_ns);
        /* If its client maps nothing, the session ends without waiting for the process. */
        if (!client_maps_anything(session->client))
                session->process_is_over = true;
        return false;
}

static bool tell_second(struct session *session)
{
        struct server *server = session->server;
        uint64_t now_ns = server_now_ns(server);

        /* While its charges stand. */
        if (session->has_asked && !session->is_end_noted)
                event_log_note_left(session, LISTED_EVENT_ENDED, NULL);
        session->is_end_noted = true;
        if (policy_client_unmap_some(server->policy, session->client, LEASES_A_STEP, now_ns))
                return true;
        if (session->state == SESSION_ORPHANED)
                (void)policy_client_eof(server->policy, session->client, now_ns);
        else
                (void)policy_client_dead(server->policy, session->client, now_ns);
        session->client = NULL;
        close_handles(session);
        return false;
}

/* Returns whether there is more to do for the signs that have come. */
static bool tell_signs(struct session *session)
{
        if (!session->is_first_told && tell_first(session))
                return true;
        return session->connection_is_over && session->process_is_over && tell_second(session);
}

static void end_client(struct task *task)
{
        struct session *session = CONTAINER_OF(task, struct session, client_end);

        if (tell_signs(session))
                payer_put(session->transport.owner.payer, task);
        server_execute(session->server);
}

/* A stop waits for none, nor for steps. */
static void note_sign(struct session *session)
{
        if (!session->client_end.payer)
                end_client(&session->client_end);
        while (session->server->stopping && session->client_end.payer) {
                payer_take_out(&session->client_end);
                end_client(&session->client_end);
        }
}

void session_end_connection(struct session *session)
{
        switch (session->state) {
        case SESSION_HELLO:
                close_handles(session);
                break;
        case SESSION_READY:
                begin_lingering(session, SESSION_LEFT);
                transport_close(&session->transport);
                session->connection_is_over = true;
                note_sign(session);
                break;
        case SESSION_ORPHANED:
                transport_close(&session->transport);
                session->connection_is_over = true;
                note_sign(session);
                break;
        case SESSION_LEFT:
        case SESSION_CLOSING:
        case SESSION_N_STATES:
                break;
        }
}

void session_end_process(struct session *session)
{
        switch (session->state) {
        case SESSION_HELLO:
                close_handles(session);
                break;
        case SESSION_READY:
                stop_watching_process(session);
                begin_lingering(session, SESSION_ORPHANED);
                session->process_is_over = true;
                note_sign(session);
                break;
        case SESSION_LEFT:
                session->process_is_over = true;
                note_sign(session);
                break;
        case SESSION_ORPHANED:
        case SESSION_CLOSING:
        case SESSION_N_STATES:
                break;
        }
}

static void put_process_end(struct session *session)
{
        payer_put(session->transport.owner.payer, &session->process_end);
}

static void report_process_end(struct fd_watch *watch, uint32_t events)
{
        struct session *session = CONTAINER_OF(watch, struct session, process_watch);

        (void)events;
        put_process_end(session);
}

/* The daemon may see the end of the connection after the end of its process. */
static void end_process(struct task *task)
{
        struct session *session = CONTAINER_OF(task, struct session, process_end);

        if (session->state == SESSION_READY && transport_catch_up(&session->transport))
                put_process_end(session);
        else
                session_end_process(session);
}

static void on_frame(struct transport *transport, int r, const struct frame *frame)
{
        struct session *session = CONTAINER_OF(transport, struct session, transport);

        /* The process has ended, so its other processes must not speak for it: only the connection's end
         * counts. */
        if (session->state == SESSION_HELLO || session->state == SESSION_READY)
                session->server->take_frame(session, r, frame);
}

/* The fd of the lease's block. -1 if the lease has ended or the block was released: the frame is then not
 * needed. */
static int find_block_fd(struct transport *transport, uint64_t lease_id)
{
        struct session *session = CONTAINER_OF(transport, struct session, transport);
        const struct backing_block *backing = NULL;
        struct block *block = policy_leased_block(session->client, lease_id);

        if (block)
                backing = block_backing(block);
        return backing ? backing->fd : -1;
}

static void on_end(struct transport *transport, const struct proto_reason *reason)
{
        struct session *session = CONTAINER_OF(transport, struct session, transport);
        char text[120];

        if (reason) {
                (void)snprintf(text, sizeof(text), "malformed frame: %s%s%s", reason->what,
                               reason->field ? " in field " : "",
                               reason->field ? reason->field : "");
                if (audit_log_may(session->account, LOG_WARNING, server_now_ns(session->server)))
                        log_warning("client %d (%s): %s; its connection ends",
                                    (int)session->peer.pid, session->program, text);
                event_log_note(session, LISTED_EVENT_DROPPED, PROTO_ALL_POOLS, 0, text);
                session_tell_error(session, 0, GPUMEM_E_BAD_FRAME, text);
        }
        if (transport->fault)
                event_log_note(session, LISTED_EVENT_DROPPED, PROTO_ALL_POOLS, 0, transport->fault);
        if (transport->fault &&
            audit_log_may(session->account, LOG_WARNING, server_now_ns(session->server)))
                log_warning("client %d (%s): %s; its connection ends", (int)session->peer.pid,
                            session->program, transport->fault);
        session_end_connection(session);
}

/* Frames are queued for the peer: it must read them in time. */
static void on_unread(struct transport *transport)
{
        timeouts_watch(transport->server);
}

void session_give_up(struct session *session, const char *text)
{
        if (audit_log_may(session->account, LOG_WARNING, server_now_ns(session->server)))
                log_warning("client %d (%s): %s; its connection ends", (int)session->peer.pid,
                            session->program, text);
        event_log_note(session, LISTED_EVENT_DROPPED, PROTO_ALL_POOLS, 0, text);
        session_tell_error(session, 0, GPUMEM_E_BAD_FRAME, text);
        session_end_connection(session);
}

void session_send(struct session *session, struct frame *frame, enum message_kind kind,
                  uint32_t serial, const int *fds, unsigned n_fds)
{
        proto_seal(frame, kind, serial, n_fds);
        transport_send(&session->transport, frame, fds, TRANSPORT_COPIED);
}

void session_send_error(struct session *session, uint32_t serial, int code, const char *text)
{
        event_log_note_denial(session, (uint32_t)code, text);
        session_tell_error(session, serial, code, text);
}

void session_tell_error(struct session *session, uint32_t serial, int code, const char *text)
{
        struct frame frame = FRAME_NULL;

        session->n_errors++;
        audit_log_refusal(session, text);
        frame.error.code = (uint32_t)code;
        proto_put_text(frame.error.text, sizeof(frame.error.text), text);
        session_send(session, &frame, MESSAGE_ERROR, serial, NULL, 0);
}

void session_refuse_pool(struct session *session, uint32_t serial, uint32_t pool)
{
        char text[64];

        (void)snprintf(text, sizeof(text), "unknown pool %u (valid: 0-%u)", (unsigned)pool,
                       (unsigned)session->server->n_pools - 1);
        session_send_error(session, serial, GPUMEM_E_NO_POOL, text);
}

void session_refuse_for_memory(struct session *session, uint32_t serial)
{
        session_send_error(session, serial, GPUMEM_E_TOO_MANY, "out of memory in gpumemd");
}

bool session_may_lease(const struct session *session)
{
        return !session->server->serves_one_user ||
               session->peer.uid == session->server->served_uid;
}

void session_note_user(struct session *session)
{
        if (session->has_asked)
                return;
        board_file_check(&session->board);
        if (session->board.counts)
                client_set_words(session->client,
                                 board_words(session->board.file.bytes, session->server->n_pools));
        session->has_asked = true;
        event_log_note(session, LISTED_EVENT_CONNECTED, PROTO_ALL_POOLS, 0,
                       session->way == SESSION_AS_ADMIN ? "admin socket" : NULL);
}

static struct transport_owner owner_of(struct session *session)
{
        struct server *server = session->server;

        if (session->way == SESSION_AS_ADMIN)
                return (struct transport_owner){.payer = &server->scheduler.admin,
                                                .allowance = &session->process->allowance};
        return (struct transport_owner){.payer = &session->process->payer,
                                        .allowance = &session->process->allowance};
}

int session_watch_process(struct session *session)
{
        struct transport_owner owner = owner_of(session);

        if (!peer_lives(&session->peer))
                return -ESRCH;
        return fd_watch_begin(&session->process_watch, &session->server->scheduler.watches,
                              owner.payer, session->peer.pidfd, EPOLLIN);
}

void session_become_ready(struct session *session, struct client *client)
{
        session->client = client;
        set_state(session, SESSION_READY);
}

static void start(struct session *session, const struct accepted *take_accepted)
{
        struct server *server = session->server;
        struct transport_owner owner = owner_of(session);

        session->transport.on_frame = on_frame;
        session->transport.on_end = on_end;
        session->transport.on_unread = on_unread;
        session->transport.find_block_fd = find_block_fd;
        session->transport.on_closed = on_transport_closed;
        session->process_end = (struct task){.step = end_process};
        session->client_end = (struct task){.step = end_client};
        session->process_watch = (struct fd_watch){.report = report_process_end};
        if (transport_init(&session->transport, server, &owner, take_accepted->fd,
                           take_accepted->peer_fd)) {
                audit_log_turned_away(server, session->account, &session->peer,
                                      TRANSPORT_UNWATCHED);
                free_later(session);
        }
}

/* Sends the reason if the socket takes it at once. */
static const char *why_turned_away(int outcome)
{
        return outcome < 0 ? "out of memory in gpumemd"
                           : "too many connections of this process, tenant or user; close some";
}

static void turn_stranger_away(struct server *server, int fd, int r)
{
        /* A peer that ended while it connected is not logged. */
        if (r != -ESRCH)
                audit_log_stranger(server, peer_fault(r));
        transport_turn_away(fd, peer_is_for_shortage(r) ? GPUMEM_E_TOO_MANY : GPUMEM_E_DENIED,
                            peer_fault(r));
}

/* Each session may keep a charge, and a pidfd, until the process has ended. */
#define SESSIONS_A_PROCESS 256

/* An administrator may connect however many clients there are. */
static int charge_connection(struct session *session)
{
        const struct process_key key = {.number = session->peer.process, .uid = session->peer.uid};
        int r;

        r = process_join(session->account, &key, &session->member, &session->process);
        if (r || session->way == SESSION_AS_ADMIN)
                return r;
        if (key.number && session->process->n_members > SESSIONS_A_PROCESS)
                r = GPUMEM_E_TOO_MANY;
        else
                r = due_begin(&session->connection, session->account->allowance,
                              ALLOWANCE_CONNECTIONS, 1);
        if (r)
                session->process = process_leave(session->process, &session->member);
        return r;
}

struct session *session_of(struct process_member *member)
{
        return CONTAINER_OF(member, struct session, member);
}

static int session_new(struct server *server, const struct peer *peer, enum session_way way,
                       struct session **ret_session)
{
        struct session *session = calloc(1, sizeof(*session));
        char realm[POLICY_REALM_MAX];
        int r;

        if (!session) {
                audit_log_turned_away(server, NULL, peer, why_turned_away(-ENOMEM));
                return -ENOMEM;
        }
        session->server = server;
        session->board = BOARD_FILE_NULL;
        session->way = way;
        session->peer = *peer;
        session->since_ns = server_now_ns(server);
        authorization_realm(peer, realm);
        r = account_ref(&server->accounts, authorization_payer(server, peer), realm,
                        &session->account);
        if (!r)
                r = charge_connection(session);
        if (!r) {
                r = numbered_add(&server->sessions_by_number, session, &session->number);
                if (r)
                        discharge_connection(session);
        }
        if (r) {
                audit_log_turned_away(server, session->account, peer, why_turned_away(r));
                (void)account_unref(session->account);
                free(session);
                return r;
        }
        session->state = SESSION_HELLO;
        TAILQ_INIT(&session->reply_files);
        LIST_INIT(&session->walks);
        (void)snprintf(session->program, sizeof(session->program), "?");
        (void)snprintf(session->name, sizeof(session->name), "?");
        LIST_INSERT_HEAD(&server->sessions, session, link);
        timeouts_watch(server);
        *ret_session = session;
        return 0;
}

bool session_accept(struct server *server, struct accepted *take_accepted, enum session_way way)
{
        struct session *session;
        int r;

        if (take_accepted->fault) {
                turn_stranger_away(server, take_accepted->fd, take_accepted->fault);
                return false;
        }
        r = session_new(server, &take_accepted->peer, way, &session);
        if (r) {
                transport_turn_away(take_accepted->fd, GPUMEM_E_TOO_MANY, why_turned_away(r));
                return false;
        }
        start(session, take_accepted);
        return true;
}

void session_drop(struct session *session)
{
        session_end_connection(session);
        session_end_process(session);
}
