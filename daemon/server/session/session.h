/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life: its transport, its peer, its client in the policy. On the loop.
 *
 * Two signs end it, in either order: the end of the connection, and the end of the process that made it. A process may
 * close its socket and live on with its memory mapped; a forked child may hold the socket after its parent has died.
 *
 *    session_accept (listener.c)
 *         |
 *         v
 *       HELLO ---- C -------------------------------------.
 *         |                                               |
 *         | its HELLO is agreed on (dispatch.c)           |
 *         v                                               v
 *       READY                                           CLOSING ----> freed, when its transport is closed
 *         |  |                                            ^   ^
 *         |  '-- C --> LEFT ----- P, or it maps nothing --'   |
 *         '----- P --> ORPHANED --- C ------------------------'
 *
 * C: session_end_connection. The connection has ended, or its frame is malformed (session.c, as transport.c
 *    says). A frame ends it: BYE, a first one that is no HELLO, a HELLO that is refused or is the second
 *    (dispatch.c). The peer says no HELLO, or reads nothing, for 5 seconds (timeouts.c).
 * P: session_end_process. The process has ended (session.c, by its pidfd, which is watched from the HELLO on: a
 *    connection that says nothing costs less so). In LEFT also: a later session of the process has taken over what
 *    this one left (process_sessions.c).
 *
 * A stop of the server brings C and then P (server.c). A session whose pidfd cannot be watched is refused at its HELLO.
 * What the policy is told at each arrow is in session.c, beside the table of legal ones: a part at a time, so LEFT and
 * ORPHANED last until it knows all. */
#pragma once

#include "daemon/identity/peer.h"
#include "daemon/server/session/board_file.h"
#include "daemon/server/transport/acceptor.h"
#include "daemon/server/transport/transport.h"

enum session_state {
        SESSION_HELLO,    /* connected; nothing was agreed on */
        SESSION_READY,    /* has a client in the policy; requests are served */
        SESSION_LEFT,     /* connection over, process alive: its charge stands */
        SESSION_ORPHANED, /* process over, connection held by a child: its charge stands */
        SESSION_CLOSING,  /* nothing stands; its transport is being closed */
        SESSION_N_STATES,
};

/* The socket to which the client connected. */
enum session_way { SESSION_AS_CLIENT, SESSION_AS_ADMIN, SESSION_N_WAYS };

/* Whether the peer may open a file of the GPU. */
struct gpu_file_access {
        enum gpu_file_verdict {
                GPU_FILE_UNKNOWN,
                GPU_FILE_OPENS,
                GPU_FILE_CLOSED,
                GPU_FILE_TOO_MANY_GROUPS,
        } verdict;
        struct device_file file; /* for which that holds */
};

struct session {
        LIST_ENTRY(session) link;
        struct server *server;
        enum session_state state;
        enum session_way way;
        bool has_asked; /* for memory, at least once: before that it has none, and its board is not read */
        bool connection_is_over, process_is_over; /* the signs that have come, */
        bool is_first_told;                       /* and whether the policy was told of one */
        bool is_end_noted;                        /* as an event */
        bool is_closed;                           /* its transport is */
        struct client *client;                    /* in READY, LEFT, ORPHANED */
        struct board_file board;
        struct transport transport;
        struct peer peer;
        struct account *account; /* the account of its user and tenant */
        struct process *process;
        struct process_member member;
        struct due connection;
        struct fd_watch process_watch;
        struct task process_end;
        struct task client_end; /* the policy is told of the signs, a part at a time */
        char program[32];       /* in ASCII: what logs and answers have, which older clients read */
        char name[32];          /* the same in UTF-8, for rows of lists */
        unsigned n_errors;      /* errors sent to it */
        struct event_history_row *grants_row; /* of its last lease; it may be another's by now */
        uint64_t features;                    /* in force */
        uint64_t since_ns;                    /* when it connected */
        uint64_t
                lingers_since_ns; /* in LEFT and ORPHANED, until that is noted as an event; then 0 */
        struct task marking;      /* it is to be asked to mark what is idle */
        bool asked_to_mark;       /* and may not have read the message yet */
        unsigned n_unread_pressures; /* told since the client had read everything, at most */
        bool takes_over;           /* takes over the process's earlier session at the first HELD */
        uint64_t n_held_bytes;     /* reported in HELLO; valid with `takes_over` */
        uint32_t number;           /* among all sessions */
        LIST_HEAD(, walk) walks;   /* under way, see request_walk.h */
        struct limit_draft *draft; /* limits to be changed together; NULL: none */
        struct reclaim *reclaim;   /* the last one; NULL: none */
        struct reply_file_list reply_files; /* the oldest first */
        unsigned n_reply_files;
        struct reply_owner *replies;                     /* of an operator's session */
        struct gpu_file_access driver_file, device_file; /* see gpu_file_access.h */
};

/* Takes a connection. False: it was told why it is not served, and is the caller's still. */
bool session_accept(struct server *server, struct accepted *take_accepted, enum session_way way);

/* Must outlive all sessions. -ENOMEM and other errors. */
int session_open_boards(struct server *server);

/* Frees the sessions that have ended. Call it where no session is at work. */
void session_free_ended(struct server *server);

/* The session of a member of a process. */
struct session *session_of(struct process_member *member);

/* From now on the end of the process counts. -ESRCH: it has ended. Other errors mean that it cannot be watched. */
int session_watch_process(struct session *session);

/* HELLO is agreed on: the session serves requests from now on. */
void session_become_ready(struct session *session, struct client *client);

/* The client asks for memory: the first time it is noted as an event, and only then its end is one, too. Who only looks,
 * as gpumemctl does again and again, would push out what users want to know. From then on its board counts, or it never
 * does (board_file.h). */
void session_note_user(struct session *session);

/* Ends a connection whose peer did not do something in time. The peer is told, if the socket takes that at
 * once. */
void session_give_up(struct session *session, const char *text);

/* The connection has ended: the client sent BYE or broke a rule. */
void session_end_connection(struct session *session);

/* The process has ended, or another session has taken over its charges. */
void session_end_process(struct session *session);

/* The daemon ends and waits for no peer any more. */
void session_drop(struct session *session);

/* False if the daemon serves one user only, and this is another one. */
bool session_may_lease(const struct session *session);

/* The session has a client in the policy, which may be charged. */
static inline bool session_has_client(const struct session *session)
{
        return session->state == SESSION_READY || session->state == SESSION_LEFT ||
               session->state == SESSION_ORPHANED;
}

/* GPUMEM_E_NO_POOL to a request that names a pool by its number. */
void session_refuse_pool(struct session *session, uint32_t serial, uint32_t pool);

/* GPUMEM_E_TOO_MANY: the daemon has no memory for the answer. */
void session_refuse_for_memory(struct session *session, uint32_t serial);

/* Answers with an error. The text says what failed and what is allowed. */
void session_send_error(struct session *session, uint32_t serial, int code, const char *text);

/* The same without a refusal event: the caller notes another event. */
void session_tell_error(struct session *session, uint32_t serial, int code, const char *text);

/* Sends a frame of `kind` with fds that are not blocks'. */
void session_send(struct session *session, struct frame *frame, enum message_kind kind,
                  uint32_t serial, const int *fds, unsigned n_fds);
