/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/transport.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/transport/send.h"
#include "daemon/server/transport/slow_socket.h"
#include "daemon/server/transport/socket_file.h"
#include "gpumem.h"

/* Queued frames at which reading stops. */
#define SEND_QUEUE_HIGH 64

/* So often a peer is heard that has something to be read, or says again that it reads no more, before that is read. */
#define AGAIN_MAX 4

static const struct proto_reason fds_came = {"unexpected file descriptors", NULL};

static bool may_read(const struct transport *transport)
{
        return transport->send_queue.n < SEND_QUEUE_HIGH && !transport->send_queue.fds.n &&
               !transport->is_waiting;
}

static bool has_unread(const struct transport *transport)
{
        return transport->is_readable || frame_inbox_has_more(&transport->inbox);
}

static bool has_work(const struct transport *transport)
{
        return (has_unread(transport) && may_read(transport)) || transport->is_writable ||
               transport->is_unserved || (transport->has_hung_up && transport->watch.set);
}

bool transport_is_heard(const struct transport *transport)
{
        return transport->watch.set && !(transport->is_readable && transport->n_again >= AGAIN_MAX);
}

/* The kernel reports that a peer has read something only while frames wait for that. A peer that is not heard it reports
 * once more, and then not until this changes. */
static uint32_t wanted_events(const struct transport *transport)
{
        uint32_t events = EPOLLIN | EPOLLRDHUP;

        if (transport->send_queue.n && !transport->is_busy)
                events |= EPOLLOUT;
        if (!transport_is_heard(transport))
                events |= (uint32_t)EPOLLONESHOT;
        return events;
}

void transport_watch(struct transport *transport)
{
        if (transport->closing)
                return;
        if (transport->send_queue.n && !transport_is_heard(transport))
                send_become_busy(transport);
        fd_watch_change(&transport->watch, wanted_events(transport));
        if (has_work(transport))
                payer_put(transport->owner.payer, &transport->task);
        else
                payer_take_out(&transport->task);
}

void transport_wait(struct transport *transport)
{
        transport->is_waiting = true;
        transport_watch(transport);
}

void transport_go_on(struct transport *transport)
{
        transport->is_waiting = false;
        transport_watch(transport);
}

static void report(struct fd_watch *watch, uint32_t events)
{
        struct transport *transport = CONTAINER_OF(watch, struct transport, watch);

        transport->n_again += transport->is_readable;
        transport->is_readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        transport->is_writable |= (events & EPOLLOUT) != 0;
        transport->has_hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        transport_watch(transport);
}

static void take_one(struct transport *transport, int r, const struct frame *frame,
                     const struct proto_reason *reason)
{
        if (r == 0 || r == GPUMEM_E_UNKNOWN_KIND)
                transport->on_frame(transport, r, frame);
        else
                transport->on_end(transport, r == GPUMEM_E_DISCONNECTED ? NULL : reason);
}

/* A peer that left answers unread is gone before its own frames are read. */
static bool has_frames(int fd)
{
        int n_bytes = 0;

        return ioctl(fd, SIOCINQ, &n_bytes) < 0 || n_bytes > 0;
}

static void note_all_read(struct transport *transport)
{
        transport->is_readable = false;
        transport->n_again = 0;
}

/* Only the first frame of those in the socket is known to bring no fds. */
static int receive_unchecked(struct transport *transport, struct frame *ret_frame,
                             struct proto_reason *ret_reason)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        bool reads_socket = !frame_inbox_has_more(&transport->inbox);
        int r;

        if (transport->may_bring_fds)
                return frame_socket_receive(transport->fd, FROM_CLIENT, ret_frame, &fds,
                                            ret_reason);
        r = frame_inbox_receive(&transport->inbox, transport->fd, ret_frame, ret_reason);
        if (reads_socket)
                transport->n_again = 0;
        /* Of one that has hung up the loop is told nothing more: it is read until the end, or an error, is met. */
        if (reads_socket && transport->inbox.is_all && !transport->has_hung_up)
                note_all_read(transport);
        return r;
}

/* Takes one frame. Returns whether there may be more. */
static bool receive(struct transport *transport)
{
        struct proto_reason reason = {"a system error", NULL};
        struct frame frame;
        bool brings_fds = false;
        uint64_t since_ns;
        int r;

        if (transport->closing || !may_read(transport))
                return false;
        since_ns = clock_now_ns();
        /* A frame that comes after this look may have fds: it is received after the next look. */
        r = transport->may_bring_fds ? frame_socket_brings_fds(transport->fd, &brings_fds) : 0;
        if (brings_fds) {
                transport->on_end(transport, &fds_came);
                return true;
        }
        if (r == 0)
                r = receive_unchecked(transport, &frame, &reason);
        transport->is_read_out = r == GPUMEM_E_DISCONNECTED && !has_frames(transport->fd);
        slow_socket_note(transport->server, transport->owner.payer->owner, since_ns);
        if (r == -EAGAIN)
                note_all_read(transport);
        if (r == -EAGAIN || r == -EINTR)
                return r == -EINTR;
        take_one(transport, r, &frame, &reason);
        return true;
}

/* The loop uses the socket no more: the connection ends in the next step. */
static void end_unserved(struct transport *transport)
{
        transport->fault = TRANSPORT_UNSERVED;
        transport->is_unserved = true;
        send_queue_drop_all(&transport->send_queue);
        fd_watch_end(&transport->watch);
}

void transport_leave_loop(struct transport *transport)
{
        struct server *server = transport->server;
        struct payer *payer = transport->owner.payer;
        int fd = transport->fd;

        if (fd != transport->peer_fd || transport->is_unserved)
                return;
        if (slow_socket_to_lane(server, payer->owner, fd, &transport->fd)) {
                end_unserved(transport);
                return;
        }
        if (transport->fd == fd)
                return;
        fd_watch_end(&transport->watch);
        transport->may_bring_fds = transport->has_hung_up = false;
        if (fd_watch_begin(&transport->watch, &server->scheduler.watches, payer, transport->fd,
                           EPOLLIN | EPOLLRDHUP))
                end_unserved(transport);
}

static void step(struct task *task)
{
        struct transport *transport = CONTAINER_OF(task, struct transport, task);

        transport->n_sent = 0;
        transport_leave_loop(transport);
        if (transport->is_unserved) {
                transport->on_end(transport, NULL);
                return;
        }
        /* All that it has sent is there to be read, and it could have the loop told of its end again and again. */
        if (transport->has_hung_up)
                fd_watch_end(&transport->watch);
        if (transport->is_writable)
                send_flush(transport);
        if (has_unread(transport) && !transport->is_unserved)
                (void)receive(transport);
        transport_watch(transport);
}

int transport_init(struct transport *transport, struct server *server,
                   const struct transport_owner *owner, int take_fd, int peer_fd)
{
        int r;

        transport->server = server;
        transport->owner = *owner;
        transport->fd = take_fd;
        transport->peer_fd = peer_fd;
        transport->task = (struct task){.step = step};
        transport->watch = (struct fd_watch){.report = report};
        transport->inbox = FRAME_INBOX_NULL;
        transport->closing = transport->is_busy = transport->is_unserved = false;
        transport->is_readable = transport->is_writable = false;
        transport->n_again = transport->n_sent = 0;
        transport->has_hung_up = transport->is_read_out = transport->is_waiting = false;
        transport->polled = (struct poll_rounds_member){.list = NULL};
        transport->fault = NULL;
        transport->may_bring_fds = server->may_get_fds && socket_file_brings_fds(take_fd);
        transport->in_flight = (struct due){.allowance = owner->allowance,
                                            .kind = ALLOWANCE_IN_FLIGHT};
        send_queue_init(&transport->send_queue, owner->allowance, server->closer);
        r = fd_watch_begin(&transport->watch, &server->scheduler.watches, owner->payer, take_fd,
                           EPOLLIN | EPOLLRDHUP);
        if (r) {
                transport_turn_away(take_fd, GPUMEM_E_TOO_MANY, TRANSPORT_UNWATCHED);
                if (peer_fd != take_fd)
                        slow_socket_close_peers(server, owner->payer->owner, peer_fd);
                transport_close_socket(server, steal_fd(&transport->fd));
                return r;
        }
        /* The peer has said something, as a rule: it connected before this. */
        transport->is_readable = true;
        transport_watch(transport);
        return 0;
}

bool transport_has_unread(struct transport *transport)
{
        struct pollfd poll_fd = {.fd = transport->fd, .events = POLLIN};

        if (transport->closing || (!has_unread(transport) && poll(&poll_fd, 1, 0) <= 0))
                return false;
        transport->is_readable = true;
        transport_watch(transport);
        return true;
}

bool transport_catch_up(struct transport *transport)
{
        struct pollfd poll_fd = {.events = POLLRDHUP};
        bool has_more;

        if (!transport->closing) {
                transport_leave_loop(transport);
                transport_watch(transport);
        }
        poll_fd.fd = transport->fd;
        if (transport->closing || transport->is_unserved || poll(&poll_fd, 1, 0) <= 0)
                return false;
        transport->has_hung_up = transport->is_readable = true;
        send_queue_drop_all(&transport->send_queue);
        has_more = transport->is_waiting || (receive(transport) && !transport->closing);
        transport_watch(transport);
        return has_more;
}

void transport_close_socket(struct server *server, int take_fd)
{
        fd_closer_take_socket(server_fd_closer(server), take_fd);
}

bool transport_has_gone(int fd)
{
        struct pollfd end = {.fd = fd};
        char byte;

        return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) &&
               recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

void transport_turn_away(int fd, int code, const char *text)
{
        struct frame frame = FRAME_NULL;

        frame.error.code = (uint32_t)code;
        proto_put_text(frame.error.text, sizeof(frame.error.text), text);
        proto_seal(&frame, MESSAGE_ERROR, 0, 0);
        (void)frame_socket_send(fd, &frame, NULL);
}

/* The kernel frees what is unread: some hundred frames, which take the loop 0.2 ms and more. Not all sockets go to the
 * thread: where many connect and go, it lags behind. */
static struct fd_closer *closer_of(const struct transport *transport)
{
        struct fd_closer *closer = transport->server->closer;

        if (!closer || transport->may_bring_fds)
                return closer;
        return transport->is_read_out || !fd_closer_keeps_up(closer) ? NULL : closer;
}

static void close_socket(struct transport *transport)
{
        uint64_t owner = transport->owner.payer->owner;
        struct fd_closer *closer = closer_of(transport);

        polling_forget(&transport->server->polling, &transport->polled);
        send_forget(transport);
        fd_watch_end(&transport->watch);
        if (transport->peer_fd != transport->fd)
                slow_socket_close_peers(transport->server, owner, transport->peer_fd);
        if (closer)
                fd_closer_take_socket(closer, transport->fd);
        else
                slow_socket_close(transport->server, owner, transport->fd);
        transport->fd = transport->peer_fd = -1;
        transport->on_closed(transport);
}

void transport_close(struct transport *transport)
{
        if (transport->closing)
                return;
        transport_leave_loop(transport);
        transport->closing = true;
        payer_take_out(&transport->task);
        send_queue_drop_all(&transport->send_queue);
        if (send_is_all_received(transport) || transport->server->stopping) {
                close_socket(transport);
                return;
        }
        fd_watch_end(&transport->watch);
        if (!transport->is_unserved)
                send_shut_down(transport);
        send_wait(transport);
}

/* The socket is closed when its peer has received the fds in flight. */
static enum poll_rounds_look look_at_end(struct transport *transport)
{
        uint64_t n_unread = transport->server->stopping ? 0 : send_count_unread(transport);

        if (n_unread) {
                backoff_go_on(&transport->polled.backoff, n_unread, transport_now_ns(transport));
                return POLL_ASKED;
        }
        close_socket(transport);
        return POLL_WORKED;
}

enum poll_rounds_look transport_look(struct poll_rounds_member *member)
{
        struct transport *transport = CONTAINER_OF(member, struct transport, polled);
        enum poll_rounds_look look;

        if (transport->closing)
                return look_at_end(transport);
        look = send_look(transport);
        if (!transport->closing && !send_must_look(transport))
                polling_forget(&transport->server->polling, member);
        transport_watch(transport);
        return look;
}

void transport_close_waiting(struct server *server)
{
        polling_look_at_all(&server->polling);
}
