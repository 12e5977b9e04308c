/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's socket on the loop: receives frames (transport.c) and sends frames with fds (send.c).
 *
 * Embedded in its owner, which must outlive it. Callbacks run on the loop; the owner may close the
 * transport in any of them. Frames that the socket does not take at once are queued. While many are queued,
 * or one with copied fds, nothing is read, so that a peer that does not read cannot make the queue grow. A
 * peer may have a few fds in flight, and a share of all; further frames with fds wait until it has received
 * them. Queued bytes count against the process, the tenant and the user, too. If their share is used up,
 * the connection ends. */
#pragma once

#include <stdbool.h>

#include "daemon/server/core/server_state.h"
#include "daemon/server/transport/send_queue.h"
#include "proto/frame_socket.h"

/* Whose the connection is. */
struct transport_owner {
        struct payer *payer;         /* of its steps, and of what is told of its fds */
        struct allowance *allowance; /* for what is sent */
};

struct transport {
        struct server *server;
        struct transport_owner owner;
        struct task task; /* one frame, or what the socket takes now */
        struct fd_watch watch;
        struct frame_inbox inbox;
        struct poll_rounds_member
                polled;       /* the loop does not report what it waits for, or its end */
        bool is_busy;         /* queued frames wait for an event that the loop does not report */
        struct due in_flight; /* fds sent that the peer has perhaps not received */
        unsigned n_fds_each;  /* of the frames in flight that have fds: the most */
        struct stall stall;   /* while frames are queued */
        unsigned n_sent;      /* frames, since its last step began */
        bool is_readable;     /* no read has found nothing since the kernel said so */
        unsigned n_again;     /* events since then, and since the last read */
        bool is_writable;     /* the kernel said so, and has not said no since */
        bool has_hung_up;     /* the peer waits for no answer; what it sent before is still read */
        bool is_read_out;     /* and all of that has been */
        bool is_waiting;      /* for the answer to the last frame: no other is read */
        bool may_bring_fds;   /* its frames are checked for fds before they are read */
        const char *fault;    /* why the daemon has ended the connection; NULL: it has not */
        int fd;
        int peer_fd; /* the one that the peer connected: another if a lane serves it (lanes.h) */
        bool is_unserved; /* no lane could take it */
        bool closing;
        struct send_queue send_queue;
        /* r: 0, or GPUMEM_E_UNKNOWN_KIND with a valid header. */
        void (*on_frame)(struct transport *transport, int r, const struct frame *frame);
        /* The peer is gone (reason NULL), or sent an invalid frame. Called once. */
        void (*on_end)(struct transport *transport, const struct proto_reason *reason);
        /* A frame is queued for the peer, which may never read it. */
        void (*on_unread)(struct transport *transport);
        /* The fd that a lease's block has now, borrowed. -1: the frame about it is not sent. */
        int (*find_block_fd)(struct transport *transport, uint64_t lease_id);
        /* After transport_close, or within it: the owner may be freed after this turn of the loop. */
        void (*on_closed)(struct transport *transport);
};

/* What a peer is told that cannot be watched. */
#define TRANSPORT_UNWATCHED "gpumemd can watch no more connections; raise fs.epoll.max_user_watches"

/* Why one ends that no lane can take. */
#define TRANSPORT_UNSERVED \
        "its user's sockets take the kernel long, and gpumemd has no more files for them"

/* Starts to read. Consumes `take_fd`, also on failure, and then tells the peer. peer_fd: the same, or the peer's as in
 * struct transport, and consumed, too. */
int transport_init(struct transport *transport, struct server *server,
                   const struct transport_owner *owner, int take_fd, int peer_fd);

/* To be called before calls for the socket: a slow user's goes to its lane, if it is not there. If that fails, the connection
 * ends. Call transport_watch then. */
void transport_leave_loop(struct transport *transport);

/* Updates what the loop watches. Call it after every change of what this depends on. */
void transport_watch(struct transport *transport);

/* Whether the loop reports its events. If not, all that can be learned of it is known, but for room for what is queued. */
bool transport_is_heard(const struct transport *transport);

/* No frame is read until transport_go_on: the answer to the last one is not there. */
void transport_wait(struct transport *transport);
void transport_go_on(struct transport *transport);

/* Sends a sealed frame, now or when the socket takes it. Failures reach on_end through the loop. */
void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind);

/* Whether frames are queued for the peer, and it has read nothing for so long. Call it at intervals. */
bool transport_is_stalled(struct transport *transport, uint64_t patience_ns);

/* Whether the peer has sent a frame or its end that is not taken yet. It is taken in the next step. */
bool transport_has_unread(struct transport *transport);

/* Whether the peer has received everything. */
bool transport_is_read(const struct transport *transport);

/* If the peer has hung up: reads one of the frames that it has sent, or its end, now. Returns whether there is more to
 * read, perhaps only when the answer to the last frame is there. */
bool transport_catch_up(struct transport *transport);

/* Ends the connection and drops the queue. on_closed follows when the peer has received the fds in flight,
 * or has hung up; they count against its share until then. */
void transport_close(struct transport *transport);

/* Closes a socket whose peer is no client yet. File descriptors that the peer has sent are closed with it, which may
 * take long (daemon/backing/worker/fd_closer.h). */
void transport_close_socket(struct server *server, int take_fd);

/* Whether the peer of an accepted socket has closed its end, and what it said, if anything, was taken. Most of those that
 * connect and say nothing have gone when their turn comes: to let them in would cost as much as to serve others. Any
 * thread. */
bool transport_has_gone(int fd);

/* Tells a refused connection the reason, if the socket takes it at once. Any thread. */
void transport_turn_away(int fd, int code, const char *text);

/* Called by polling. */
enum poll_rounds_look transport_look(struct poll_rounds_member *member);

/* The daemon ends: closes the connections that wait for their peers. */
void transport_close_waiting(struct server *server);

static inline uint64_t transport_now_ns(const struct transport *transport)
{
        return server_now_ns(transport->server);
}
