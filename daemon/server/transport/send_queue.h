/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to be sent over one connection, with copies of their fds, unless those are blocks' fds.
 * They count against their tenant's and user's share. On the loop. */
#pragma once

#include <sys/queue.h>

#include "base/fdset.h"
#include "daemon/fairness/allowance.h"
#include "proto/messages.h"

struct fd_closer;

/* Bytes that may be queued for one peer. */
#define SEND_QUEUE_BYTES_MAX (UINT64_C(1) << 20)

/* The caller keeps the fds of a frame. If the frame is queued, the queue copies them. Blocks' fds are found
 * again later instead: they are many, and the driver's. */
enum transport_fds { TRANSPORT_COPIED, TRANSPORT_OF_BLOCK };

struct outgoing {
        TAILQ_ENTRY(outgoing) link;
        struct frame frame;
        struct fdset fds; /* copies */
        enum transport_fds kind;
};

struct send_queue {
        TAILQ_HEAD(, outgoing) list;
        unsigned n;
        struct fd_closer *closer; /* of copies */
        struct due fds;
        struct due bytes;
};

/* closer: NULL is legal. */
void send_queue_init(struct send_queue *queue, struct allowance *allowance,
                     struct fd_closer *closer);

/* GPUMEM_E_TOO_MANY if the peer, its tenant or its user has too much queued. -ENOMEM, or another -errno of
 * copying the fds. */
int send_queue_put(struct send_queue *queue, const struct frame *frame, const int *fds,
                   enum transport_fds kind);

/* NULL: the queue is empty. */
const struct outgoing *send_queue_first(const struct send_queue *queue);
void send_queue_drop_first(struct send_queue *queue);
void send_queue_drop_all(struct send_queue *queue);
