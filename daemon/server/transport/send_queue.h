/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to be sent over one connection, with copies of their fds where they have some of their
 * own. They are on its tenant's and user's account while they wait. On the loop. */
#pragma once

#include <sys/queue.h>

#include "base/fdset.h"
#include "daemon/ratelimit/allowance.h"
#include "proto/proto.h"

/* What waits for one peer, at most. */
#define SEND_QUEUE_BYTES_MAX (UINT64_C(1) << 20)

/* Fds of a frame to send are borrowed. If it has to wait they are copied, or found again: those of
 * blocks, which are many, and a driver's. */
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
        struct due fds;
        struct due bytes;
};

void send_queue_init(struct send_queue *queue, struct allowance *allowance);

/* GPUMEM_E_TOO_MANY when so much may not wait, for the peer, its tenant or its user; -ENOMEM, or another -errno of
 * copying the fds. */
int send_queue_put(struct send_queue *queue, const struct frame *frame, const int *fds,
                   enum transport_fds kind);

/* NULL: nothing waits. */
const struct outgoing *send_queue_first(const struct send_queue *queue);
void send_queue_drop_first(struct send_queue *queue);
void send_queue_drop_all(struct send_queue *queue);
