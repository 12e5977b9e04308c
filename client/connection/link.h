/* SPDX-License-Identifier: Apache-2.0 */
/* A link to the daemon: sends requests, and passes each reply to the thread that waits for it.
 *
 * Any thread may call; replies come in any order. The link has no thread of its own: of the threads that wait for a
 * reply, one reads for all. After the daemon has gone every call returns GPUMEM_E_DISCONNECTED, and the calling
 * thread's last error has the reason.
 *
 * If a daemon sends nothing for half of answer_ms while a thread waits, the link asks it a question that needs no
 * waiting. If nothing comes in the other half either, the daemon counts as gone. It also counts as gone if it reads
 * nothing for answer_ms. The link is over then, and what the daemon sends later is ignored. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fdset.h"
#include "proto/messages.h"
#include "proto/refusal_text.h"

struct link;

struct link_hello {
        const char *program;
        /* Called when a NOTICE has come, under a lock of the link. May be NULL. */
        void (*notice)(void *owner, const struct message_notice *notice);
        void *owner;
        uint64_t incarnation;  /* of the daemon that the client was connected to before; 0: none */
        uint64_t n_held_bytes; /* of that daemon's blocks that are still mapped */
        uint32_t answer_ms;    /* 0: LINK_ANSWER_MS */
        bool seals_board; /* the caller maps its board, and seals it before it asks for memory */
};
#define LINK_ANSWER_MS 10000

/* Connects and says HELLO. The caller owns the answer's fds. `socket_path` as in proto/address.h.
 * GPUMEM_E_DISCONNECTED: no daemon listens. GPUMEM_E_VERSION, GPUMEM_E_DENIED or another GPUMEM_E_*: the daemon's
 * answer, or its reason for closing the connection unread. The calling thread's last error has the reason. */
int link_open(const char *socket_path, const struct link_hello *hello, struct link **ret_link,
              struct message_welcome *ret_welcome, struct fdset *ret_fds);

/* The socket; the link keeps it. */
int link_socket(const struct link *link);

/* Is the daemon gone? True even if no call has noticed yet. */
bool link_is_over(const struct link *link);

/* Has a thread noticed that the link is over? What had come until then was read. */
bool link_is_dead(struct link *link);

/* Did the link end because the daemon did not answer? The next connection may well be as silent. */
bool link_is_silent(struct link *link);

/* After this call no NOTICE is passed on. */
void link_stop_notices(struct link *link);

/* Handles received frames, unless another thread reads. False: another thread reads, or the link is over. */
bool link_read_news(struct link *link);

/* Says BYE and closes the socket. No other thread may be in a call. NULL is legal; returns NULL. */
struct link *link_free(struct link *link);

/* Sends a request of `kind`, whose fields the caller has set, and waits for the answer. 0: ret_reply is of
 * `reply_kind`, or KNOWN instead of LEASED. Else the code of the daemon's ERROR, REFUSED or REFUSED_FACTS, which is ret_reply
 * then. */
int link_call(struct link *link, struct frame *request, enum message_kind kind,
              enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds);

/* The same for several requests of one kind. They are sent one after another with nothing between them, and all
 * answers are waited for. 0: each has a reply; else the code of the last one that was refused. */
#define LINK_TOGETHER_MAX 64
struct link_exchange {
        struct frame request;
        struct frame reply;
        struct fdset fds;
        int result;
};
int link_call_together(struct link *link, struct link_exchange *exchanges, unsigned n,
                       enum message_kind kind, enum message_kind reply_kind);

/* The text of the daemon's last refusal of a call, of any thread; empty if there was none. */
#define LINK_REFUSAL_MAX REFUSAL_TEXT_BYTES
void link_refusal(struct link *link, char text[static LINK_REFUSAL_MAX]);

/* Sends a message that has no answer; an ERROR about it is ignored. */
int link_send(struct link *link, struct frame *frame, enum message_kind kind);
