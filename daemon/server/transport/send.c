/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/send.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "daemon/server/transport/slow_socket.h"
#include "gpumem.h"

/* Fds in flight to one peer, at most. */
#define IN_FLIGHT_MAX 32

/* Queued frames that are sent in one step. A peer may have let thousands queue up, and reads while they are sent. */
#define FRAMES_A_STEP 8

/* Frames that are sent where they are made, until the connection's next step: a group that is refused has an answer for each of
 * its 64 parts. Further ones queue up for that step. */
#define FRAMES_AT_ONCE 16

/* A frame that the peer has not received counts as so many unread bytes at least, however short it is: the kernel adds
 * its own records of it. */
#define UNREAD_BYTES_MIN 768

static uint64_t count_unread_in(int fd)
{
        int n_bytes = 0;

        return ioctl(fd, SIOCOUTQ, &n_bytes) == 0 && n_bytes > 0 ? (uint64_t)n_bytes : 0;
}

/* One frame that a lane holds is in neither socket. */
uint64_t send_count_unread(const struct transport *transport)
{
        uint64_t n_bytes = count_unread_in(transport->fd);

        if (transport->peer_fd != transport->fd)
                n_bytes += count_unread_in(transport->peer_fd);
        return n_bytes;
}

void send_shut_down(struct transport *transport)
{
        uint64_t since_ns = clock_now_ns();

        (void)shutdown(transport->fd, SHUT_RDWR);
        slow_socket_note(transport->server, transport->owner.payer->owner, since_ns);
}

/* The daemon sees the peer's end by reading, so that frames that the peer sent before are still taken. A
 * connection that cannot be written to for another reason is shut down, which reads as its end. */
static void give_up_sending(struct transport *transport)
{
        send_queue_drop_all(&transport->send_queue);
        send_shut_down(transport);
}

static void begin_looks(struct transport *transport, uint64_t n_unread)
{
        backoff_begin(&transport->polled.backoff, n_unread, transport_now_ns(transport));
        polling_watch(&transport->server->polling, &transport->polled);
}

void send_wait(struct transport *transport)
{
        begin_looks(transport, send_count_unread(transport));
}

void send_become_busy(struct transport *transport)
{
        if (transport->is_busy)
                return;
        transport->is_busy = true;
        send_wait(transport);
}

void send_forget(struct transport *transport)
{
        due_shrink(&transport->in_flight, transport->in_flight.n);
}

bool transport_is_read(const struct transport *transport)
{
        return !transport->send_queue.n && !send_count_unread(transport);
}

/* The kernel does not tell which frames the peer has received, but how many bytes it has not. */
static void count_in_flight(struct transport *transport, uint64_t n_unread)
{
        uint64_t n_frames = (n_unread + UNREAD_BYTES_MIN - 1) / UNREAD_BYTES_MIN;
        uint64_t n_most = n_frames * transport->n_fds_each;

        if (n_most < transport->in_flight.n)
                due_shrink(&transport->in_flight, transport->in_flight.n - n_most);
}

bool send_is_all_received(struct transport *transport)
{
        if (transport->in_flight.n)
                count_in_flight(transport, send_count_unread(transport));
        return !transport->in_flight.n;
}

static bool fits(const struct transport *transport, unsigned n_fds)
{
        return transport->in_flight.n + n_fds <= IN_FLIGHT_MAX &&
               allowance_fits(transport->owner.allowance, ALLOWANCE_IN_FLIGHT, n_fds);
}

static bool may_send(struct transport *transport, unsigned n_fds)
{
        if (fits(transport, n_fds))
                return true;
        count_in_flight(transport, send_count_unread(transport));
        return fits(transport, n_fds);
}

/* What has been received is found out by looking, the first time soon: the kernel is not asked now, since most frames are
 * read by then. Until then it counts, and connections of the same process, tenant and user may have to wait for it, also
 * if nothing more is sent here. */
static void note_in_flight(struct transport *transport, unsigned n_fds)
{
        if (!n_fds)
                return;
        if (!transport->in_flight.n) {
                transport->n_fds_each = 0;
                begin_looks(transport, 0);
        }
        if (n_fds > transport->n_fds_each)
                transport->n_fds_each = n_fds;
        due_grow(&transport->in_flight, n_fds);
}

/* -EAGAIN: the loop reports when to go on. -EBUSY: the loop does not, so the connection is polled. */
static int try_send(struct transport *transport, const struct frame *frame, const int *fds)
{
        uint64_t since_ns;
        int r;

        if (frame->n_fds && !may_send(transport, frame->n_fds))
                return -EBUSY;
        since_ns = clock_now_ns();
        r = frame_socket_send(transport->fd, frame, fds);
        slow_socket_note(transport->server, transport->owner.payer->owner, since_ns);
        switch (r) {
        case 0:
                note_in_flight(transport, frame->n_fds);
                return 0;
        /* Other processes of the user have too many fds in flight. This passes. */
        case -ETOOMANYREFS:
        case -ENOBUFS:
        case -ENOMEM:
                return -EBUSY;
        default:
                return r;
        }
}

/* The loop reports when there is room, if it hears the peer at all. */
static void wait_for_room(struct transport *transport, int r)
{
        if (r == -EBUSY || (r == -EAGAIN && !transport_is_heard(transport)))
                send_become_busy(transport);
}

static uint64_t lease_of(const struct frame *frame)
{
        return frame->kind == MESSAGE_LEASED ? frame->leased.lease : frame->attached.lease;
}

static int try_first(struct transport *transport)
{
        const struct outgoing *outgoing = send_queue_first(&transport->send_queue);
        int block_fd;

        if (outgoing->kind == TRANSPORT_COPIED)
                return try_send(transport, &outgoing->frame, outgoing->fds.fds);
        block_fd = transport->find_block_fd(transport, lease_of(&outgoing->frame));
        return block_fd < 0 ? 0 : try_send(transport, &outgoing->frame, &block_fd);
}

void send_flush(struct transport *transport)
{
        transport->is_writable = false;
        for (unsigned i = 0; transport->send_queue.n; i++) {
                int r;

                if (i == FRAMES_A_STEP) {
                        transport->is_writable = true;
                        return;
                }
                transport_leave_loop(transport);
                if (transport->is_unserved)
                        return;
                r = try_first(transport);

                wait_for_room(transport, r);
                if (r == -EBUSY || r == -EAGAIN)
                        return;
                if (r) {
                        give_up_sending(transport);
                        return;
                }
                send_queue_drop_first(&transport->send_queue);
                stall_begin(&transport->stall, send_count_unread(transport),
                            transport_now_ns(transport));
        }
}

static int queue_up(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        bool is_first = transport->send_queue.n == 0;
        int r = send_queue_put(&transport->send_queue, frame, fds, kind);

        if (r)
                return r;
        if (is_first)
                stall_begin(&transport->stall, send_count_unread(transport),
                            transport_now_ns(transport));
        transport->on_unread(transport);
        return 0;
}

/* Queues a frame. On failure the connection must end, since a reply is missing. */
static bool put_off(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        int r = queue_up(transport, frame, fds, kind);

        if (r)
                transport->fault = r > 0 ? "more replies are queued for it, its process, its "
                                           "tenant or its user than allowed"
                                         : "gpumemd lacks memory or file descriptors for a reply";
        return !r;
}

/* The step has sent enough. A frame that may not queue up is sent all the same. */
static bool leave_for_next_step(struct transport *transport, const struct frame *frame,
                                const int *fds, enum transport_fds kind)
{
        if (transport->n_sent < FRAMES_AT_ONCE || queue_up(transport, frame, fds, kind))
                return false;
        transport->is_writable = true;
        transport_watch(transport);
        return true;
}

void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        int r = -EAGAIN;

        if (transport->closing)
                return;
        transport_leave_loop(transport);
        if (transport->is_unserved) {
                transport_watch(transport);
                return;
        }
        if (!transport->send_queue.n) {
                if (leave_for_next_step(transport, frame, fds, kind))
                        return;
                r = try_send(transport, frame, fds);
        }
        transport->n_sent += r == 0;
        if (r == 0)
                return;
        wait_for_room(transport, r);
        if ((r != -EBUSY && r != -EAGAIN) || !put_off(transport, frame, fds, kind))
                give_up_sending(transport);
        transport_watch(transport);
}

bool transport_is_stalled(struct transport *transport, uint64_t patience_ns)
{
        return !transport->closing && transport->send_queue.n &&
               stall_is_over(&transport->stall, send_count_unread(transport), patience_ns,
                             transport_now_ns(transport));
}

bool send_must_look(const struct transport *transport)
{
        return transport->is_busy || transport->in_flight.n;
}

enum poll_rounds_look send_look(struct transport *transport)
{
        uint64_t n_unread = send_count_unread(transport);
        struct backoff backoff = transport->polled.backoff;
        unsigned n = transport->send_queue.n;

        count_in_flight(transport, n_unread);
        transport_leave_loop(transport);
        if (transport->is_unserved)
                return POLL_WORKED;
        if (transport->is_busy) {
                transport->is_busy = false;
                send_flush(transport);
        }
        if (transport->send_queue.n != n)
                return POLL_WORKED;
        backoff_go_on(&backoff, n_unread, transport_now_ns(transport));
        transport->polled.backoff = backoff;
        return POLL_ASKED;
}
