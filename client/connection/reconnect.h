/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the daemon, over its incarnations: the present connection, or the next one.
 *
 * A connection that failed once is lost for good. Whoever needs one then makes the next; of several threads one does
 * so, and the others wait for it and share its result. The last connection stays until the next has taken its place,
 * since its board is written to until then. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection/connection.h"
#include "client/runtime/events.h"

/* What the owner does about a change. Called by the one thread that connects, without locks. */
struct reconnect_owner {
        /* No lease of the last connection counts as one any more; the bytes that are still mapped. */
        uint64_t (*detach)(void *owner);
        /* A daemon that has started since: its pools, its board. On failure it is not used. */
        int (*attach)(void *owner, struct connection *connection);
        /* The connection that was attached is the present one: says what is held. */
        void (*declare)(void *owner);
        /* The daemon has news, one of PROTO_NOTICE_*. Under locks: nothing that waits. */
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

/* Makes the first connection; the owner attaches to it by itself. Errors as connection_new. */
int reconnect_init(struct reconnector *reconnector, const char *socket_path, const char *program,
                   struct events *events, const struct reconnect_owner *calls, void *owner);

/* Legal also for one that is zero, or whose init failed. */
/* The owner is about to go: no NOTICE is passed on to it. No other thread is in a call. */
void reconnect_stop_notices(struct reconnector *reconnector);
void reconnect_deinit(struct reconnector *reconnector);

/* A reference to the present connection, made if the last one is lost. */
int reconnect_acquire(struct reconnector *reconnector, struct connection **ret_connection);

/* Until there is a connection again, but no longer than this; tries nothing itself. */
void reconnect_pause(struct reconnector *reconnector, uint32_t ms);

/* Connects again if the daemon has gone unnoticed: for a caller that misses what the next one may have. */
void reconnect_renew(struct reconnector *reconnector);

/* A reference to the present connection, unless it is lost; NULL then. */
struct connection *reconnect_present(struct reconnector *reconnector);

/* Gives it back after a call on it that had this result. */
void reconnect_release(struct reconnector *reconnector, struct connection *take_connection,
                       int result);

/* Is a request that had this result on the connection to be made once more, over the next? Not if the daemon was
 * silent: nobody waits twice in one call. */
bool reconnect_may_repeat(const struct connection *connection, int result);

/* link_call on the present connection, whose serial ret_serial is (it may be NULL). If it turns out to be lost the
 * request is made once more, over the next: for requests that name no pool and no lease. */
int reconnect_call(struct reconnector *reconnector, struct frame *request, enum message_kind kind,
                   enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds,
                   uint64_t *ret_serial);

/* link_call on the connection of this serial, for requests that name a lease. GPUMEM_E_OUTLIVED when there is another
 * by now. */
int reconnect_call_on(struct reconnector *reconnector, uint64_t serial, struct frame *request,
                      enum message_kind kind, enum message_kind reply_kind, struct frame *ret_reply,
                      struct fdset *ret_fds);

/* link_send, if the connection of this serial is the present one; else nothing is sent. */
void reconnect_send(struct reconnector *reconnector, uint64_t serial, struct frame *frame,
                    enum message_kind kind);
