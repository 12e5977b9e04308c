/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the daemon: requests out, replies back to whom they belong.
 *
 * Any thread may call; replies come in any order. There is no thread of the link's own: of those that wait for a reply,
 * one reads for all. After the daemon has gone every call gives GPUMEM_E_DISCONNECTED, and the calling thread's last
 * error says why.
 *
 * A daemon that says nothing to somebody who waits is asked, after half of answer_ms, for what it can answer at once;
 * if nothing at all has come after the other half, it counts as gone. So it does when it has read nothing for that
 * long. What it may send later finds a connection that is over. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fdset.h"
#include "proto/proto.h"

struct link;

/* Connects and says HELLO; the answer's fds are the caller's. `socket_path` as in proto/address.h.
 * GPUMEM_E_DISCONNECTED when no daemon listens; GPUMEM_E_VERSION, GPUMEM_E_DENIED or another GPUMEM_E_* as the daemon
 * answers, or as it says when it turns the connection away unread. The calling thread learns why. */
int link_new(const char *socket_path, const char *program, struct link **ret_link,
             struct message_welcome *ret_welcome, struct fdset *ret_fds);

/* The same for a client that spoke to a daemon before. */
struct link_hello {
        const char *program;
        /* A NOTICE came; under a lock of the link's. Or NULL. */
        void (*notice)(void *owner, const struct message_notice *notice);
        void *owner;
        uint64_t incarnation;  /* of that daemon; 0: none */
        uint64_t n_held_bytes; /* of its blocks that are still mapped */
        uint32_t answer_ms;    /* 0: LINK_ANSWER_MS */
};
#define LINK_ANSWER_MS 10000
int link_open(const char *socket_path, const struct link_hello *hello, struct link **ret_link,
              struct message_welcome *ret_welcome, struct fdset *ret_fds);

/* The socket, which stays the link's. */
int link_socket(const struct link *link);

/* Has the daemon gone, whether or not a call has met with that? */
bool link_is_over(const struct link *link);

/* Did it end because the daemon did not answer? The next connection may well be as silent. */
bool link_is_silent(struct link *link);

/* No NOTICE is passed on once this has returned. */
void link_stop_notices(struct link *link);

/* Takes what has come, if nobody else reads. False: somebody does, or there is nothing to come any more. */
bool link_read_news(struct link *link);

/* Says BYE and closes. No other thread is in a call. NULL is legal; returns NULL. */
struct link *link_free(struct link *link);

/* Sends a request of `kind`, whose fields are set, and waits for its answer: 0 with a reply of
 * `reply_kind` (where that is LEASED, with KNOWN too), or what the daemon's ERROR says; that frame is ret_reply then. */
int link_call(struct link *link, struct frame *request, enum message_kind kind,
              enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds);

/* The same of several requests of one kind: they are sent one after another, with nothing between them, and all
 * answers are waited for. 0: there is a reply to each; else what was said of the last one that was refused. */
#define LINK_TOGETHER_MAX 64
struct link_exchange {
        struct frame request;
        struct frame reply;
        struct fdset fds;
        int result;
};
int link_call_together(struct link *link, struct link_exchange *exchanges, unsigned n,
                       enum message_kind kind, enum message_kind reply_kind);

/* What the daemon said when it last refused a call of any thread; empty before that. */
#define LINK_REFUSAL_MAX 400
void link_refusal(struct link *link, char text[static LINK_REFUSAL_MAX]);

/* Sends what has no answer; an ERROR about it is passed over. */
int link_send(struct link *link, struct frame *frame, enum message_kind kind);
