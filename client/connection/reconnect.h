/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the client connected across restarts of the daemon: the present connection, or the next one.
 *
 * A connection that failed once is lost for good. A thread that then needs one makes the next; other threads wait for
 * it and share its result. The last connection stays until the next has replaced it, since its board is written to
 * until then. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection/connection.h"
#include "client/runtime/events.h"

/* The owner's reactions. Called by the one thread that connects, without locks. */
struct reconnect_owner {
        /* Leases of the last connection no longer count as leases. Returns the bytes that are still mapped. */
        uint64_t (*detach)(void *owner);
        /* Takes over the pools and the board of a new connection. On failure the connection is not used. */
        int (*attach)(void *owner, struct connection *connection);
        /* The attached connection is the present one: tells the daemon what is held. */
        void (*declare)(void *owner);
        /* The daemon has sent a NOTICE, one of PROTO_NOTICE_*. Called under locks: it must not wait. */
        void (*notice)(void *owner, const struct message_notice *notice);
};

struct reconnector {
        char *socket_path; /* NULL: where proto/address.h says */
        char *program;
        struct events *events;
        const struct reconnect_owner *calls;
        void *owner;
        pthread_mutex_t lock; /* guards what follows */
        pthread_cond_t news;  /* an attempt is over, or there is a connection */
        struct connection *connection;
        bool lost;
        bool connecting;
        uint64_t n_attempts;
        int last_result;
        char last_text[GPUMEM_TEXT_BYTES]; /* of that */
};

/* Makes the first connection; the owner attaches to it on its own. Errors as connection_new. */
int reconnect_init(struct reconnector *reconnector, const char *socket_path, const char *program,
                   struct events *events, const struct reconnect_owner *calls, void *owner);

/* The owner is about to end: no further NOTICE is passed to it. No other thread may be in a call. Like
 * reconnect_deinit it is legal for a zeroed struct, and after a failed init. */
void reconnect_stop_notices(struct reconnector *reconnector);
void reconnect_deinit(struct reconnector *reconnector);

/* Returns a reference to the present connection; connects first if the last one is lost. */
int reconnect_acquire(struct reconnector *reconnector, struct connection **ret_connection);

/* Waits until there is a connection again, but at most `ms`. Does not connect itself. */
void reconnect_pause(struct reconnector *reconnector, uint32_t ms);

/* Connects again if the daemon has gone unnoticed. For a caller that lacks something that the next daemon may have. */
void reconnect_renew(struct reconnector *reconnector);

/* A reference to the present connection; NULL: it is lost. */
struct connection *reconnect_present(struct reconnector *reconnector);

/* Gives the reference back. `result`: of the call that was made on the connection. */
void reconnect_release(struct reconnector *reconnector, struct connection *take_connection,
                       int result);

/* Should a request with this result be repeated over the next connection? Not if the daemon was silent: no call waits
 * for a silent daemon twice. */
bool reconnect_may_repeat(const struct connection *connection, int result);

/* link_call on the present connection, whose serial is ret_serial (it may be NULL). If the connection turns out to be
 * lost, the request is repeated once over the next. For requests that name no pool and no lease. */
int reconnect_call(struct reconnector *reconnector, struct frame *request, enum message_kind kind,
                   enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds,
                   uint64_t *ret_serial);

/* link_call on the connection with this serial, for requests that name a lease. GPUMEM_E_OUTLIVED: there is another
 * one by now. */
int reconnect_call_on(struct reconnector *reconnector, uint64_t serial, struct frame *request,
                      enum message_kind kind, enum message_kind reply_kind, struct frame *ret_reply,
                      struct fdset *ret_fds);

/* link_send, if the connection with this serial is the present one; else nothing is sent. */
void reconnect_send(struct reconnector *reconnector, uint64_t serial, struct frame *frame,
                    enum message_kind kind);
