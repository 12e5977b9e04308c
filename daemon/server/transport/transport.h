/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's socket on the loop: frames in (transport.c), frames out with their fds (send.c).
 *
 * Embedded in its owner, which it must not outlive. Callbacks run on the loop; the owner may close the transport in any
 * of them. Frames that the socket does not take at once are queued; while many are, or one with fds of its own, nothing
 * more is read, so that a peer who does not listen cannot make the queue grow. Of fds that were sent and not received a
 * peer has a few at most, and a share of what all may have: then its frames wait until it has taken them. What is
 * queued is on the account of its tenant and user too; where that has no room the connection ends. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "daemon/server/core/server_state.h"
#include "daemon/server/transport/send_queue.h"
#include "proto/wire.h"

struct transport {
        struct server *server;
        struct account *account;
        struct rounds_member polled; /* looked at from time to time: the loop does not tell */
        bool is_busy;                /* what is queued waits for what the loop does not tell of */
        struct backoff backoff;      /* of that, or of its end */
        struct due in_flight;        /* fds sent since the peer was seen to have taken all */
        struct stall stall;          /* while there is a queue */
        uint64_t held_until_ns;      /* nothing is read before */
        bool hung_up;                /* the peer, while it was held, or when that was asked */
        bool may_bring_fds;          /* its frames are looked at before they are read */
        const char *fault;           /* for which the daemon has ended it; NULL: none */
        uv_poll_t poll;
        int watched; /* by that: events */
        int fd;
        bool closing;
        struct send_queue send_queue;
        /* r: 0, or GPUMEM_E_UNKNOWN_KIND with a sound header. */
        void (*on_frame)(struct transport *transport, int r, const struct frame *frame);
        /* The peer is gone (reason NULL), or what it sent was no frame. Called once. */
        void (*on_end)(struct transport *transport, const struct proto_reason *reason);
        /* A frame waits for the peer, which may never read it. */
        void (*on_unread)(struct transport *transport);
        /* The fd that a lease's block has now, borrowed; -1: the frame about it is not sent. */
        int (*find_block_fd)(struct transport *transport, uint64_t lease_id);
        /* It was held, and its time has come: 0, or the time until which it still is. */
        uint64_t (*hold_until)(struct transport *transport);
        /* After transport_close: the handle is free. */
        void (*on_closed)(struct transport *transport);
};

/* Starts to read, on that account. The transport owns `take_fd`, also on failure. */
int transport_init(struct transport *transport, struct server *server, struct account *account,
                   int take_fd);

/* What the loop is to tell of; to be called after whatever changes that. */
void transport_watch(struct transport *transport);

/* Sends a sealed frame, now or when the socket takes it. Failures reach on_end by way of the loop. */
void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind);

/* Whether something waits for the peer, who has read nothing for so long. To be asked from time to time. */
bool transport_is_stalled(struct transport *transport, uint64_t patience_ns);

/* Takes some of what has come, now and not when the loop comes to it. */
void transport_take(struct transport *transport);

/* Nothing is read before that time, unless the peer hangs up: what it has sent is all that comes. */
void transport_hold(struct transport *transport, uint64_t until_ns);

/* Whether the peer has taken all that was sent. */
bool transport_is_read(const struct transport *transport);

/* If the peer has hung up: takes what it had sent, and its end, now and not when the loop comes to it. */
void transport_catch_up(struct transport *transport);

/* Ends the connection; what is queued is dropped. on_closed follows, when the peer has taken the fds that are in
 * flight, or has hung up: they are accounted for until then. */
void transport_close(struct transport *transport);

/* The server's look at one that it polls. */
enum rounds_look transport_look(struct rounds_member *member);

/* The daemon ends: connections that wait for their peers are closed now. */
void transport_close_waiting(struct server *server);

static inline uint64_t transport_now_ns(const struct transport *transport)
{
        return server_now_ns(transport->server);
}
