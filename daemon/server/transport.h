/* A connection's socket on the loop: frames in, frames out with their fds.
 *
 * Embedded in its owner, which it must not outlive. Callbacks run on the loop; the owner may close
 * the transport in any of them. Frames that the socket does not take at once are queued; while many
 * are, nothing more is read, so that a peer who does not listen cannot make the queue grow. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "daemon/server/core.h"
#include "proto/wire.h"

struct outgoing;
TAILQ_HEAD(outgoing_queue, outgoing);

struct transport {
        struct server *server;
        uv_poll_t poll;
        int fd;
        bool closing;
        struct outgoing_queue queue;
        unsigned n_queued;
        /* r: 0, or GPUMEM_E_UNKNOWN_KIND with a sound header. */
        void (*on_frame)(struct transport *transport, int r, const struct frame *frame);
        /* The peer is gone (reason NULL), or what it sent was no frame. Called once. */
        void (*on_end)(struct transport *transport, const struct proto_reason *reason);
        /* After transport_close: the handle is free. */
        void (*on_closed)(struct transport *transport);
};

/* Fds of a frame to send: borrowed. Those of blocks may be a driver's, which are closed later by
 * the pool's worker if the frame has to wait. */
#define TRANSPORT_NO_POOL UINT32_MAX

/* Starts to read. The transport owns `take_fd`, also on failure. */
int transport_init(struct transport *transport, struct server *server, int take_fd);

/* Sends a sealed frame, now or when the socket takes it. Failures reach on_end by way of the
 * loop. */
void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    uint32_t pool);

/* If the peer has hung up: takes what it had sent, and its end, now and not when the loop comes to it. */
void transport_catch_up(struct transport *transport);

/* Ends the connection; what is queued is dropped. on_closed follows. */
void transport_close(struct transport *transport);
