/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/transport.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/transport/send.h"
#include "daemon/server/transport/socket_close.h"
#include "daemon/server/transport/socket_file.h"
#include "gpumem.h"

/* Frames taken from one socket before other sockets are served. */
#define FRAMES_A_TURN 8

/* The same for a connection that was held back. A user may have many of these, and they are read one after
 * another. */
#define FRAMES_A_LOOK 2

/* Queued frames at which reading stops. */
#define SEND_QUEUE_HIGH 64

static const struct proto_reason fds_came = {"unexpected file descriptors", NULL};

static void on_poll(uv_poll_t *poll, int status, int events);

static bool may_read(const struct transport *transport)
{
        return transport->send_queue.n < SEND_QUEUE_HIGH && !transport->send_queue.fds.n &&
               !transport->held_until_ns;
}

/* Changes the events only if needed: libuv removes the socket from the kernel's set and adds it again each
 * time. */
void transport_watch(struct transport *transport)
{
        int events = 0;

        if (transport->closing)
                return;
        if (may_read(transport))
                events |= UV_READABLE;
        else if (transport->held_until_ns)
                events |= UV_DISCONNECT;
        if (transport->send_queue.n && !transport->is_busy)
                events |= UV_WRITABLE;
        if (events == transport->watched)
                return;
        transport->watched = events;
        (void)uv_poll_start(&transport->poll, events, on_poll);
}

static void look_later(struct transport *transport)
{
        polling_watch(&transport->server->polling, &transport->polled);
}

static void take_one(struct transport *transport, int r, const struct frame *frame,
                     const struct proto_reason *reason)
{
        if (r == 0 || r == GPUMEM_E_UNKNOWN_KIND)
                transport->on_frame(transport, r, frame);
        else
                transport->on_end(transport, r == GPUMEM_E_DISCONNECTED ? NULL : reason);
}

/* Returns the number of frames taken. If that is n_max, there may be more. */
static unsigned receive(struct transport *transport, unsigned n_max)
{
        unsigned n = 0;

        for (; n < n_max && !transport->closing && may_read(transport); n++) {
                CLEANUP(fdset_deinit)
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason = {"a system error", NULL};
                struct frame frame;
                int r;

                if (transport->may_bring_fds && wire_brings_fds(transport->fd)) {
                        transport->on_end(transport, &fds_came);
                        continue;
                }
                r = wire_receive(transport->fd, FROM_CLIENT, &frame, &fds, &reason);
                if (r == -EAGAIN || r == -EINTR)
                        break;
                take_one(transport, r, &frame, &reason);
        }
        return n;
}

/* The peer has hung up: the connection is no longer held back, since its process may have ended, and others
 * wait for its memory. */
static void note_end(struct transport *transport)
{
        transport->hung_up = true;
        transport->held_until_ns = 0;
}

/* An error status means that the peer hung up with unread bytes on its side. Nothing can be sent to it, but
 * what it sent before can still be read. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct transport *transport = CONTAINER_OF(poll, struct transport, poll);

        if (status < 0) {
                transport->watched = 0; /* libuv has stopped */
                send_queue_drop_all(&transport->send_queue);
        } else if (events & UV_WRITABLE) {
                send_flush(transport);
        }
        if (transport->held_until_ns && (status < 0 || events & UV_DISCONNECT))
                note_end(transport);
        if (status < 0 || events & (UV_READABLE | UV_DISCONNECT))
                (void)receive(transport, FRAMES_A_TURN);
        transport_watch(transport);
}

int transport_init(struct transport *transport, struct server *server, struct account *account,
                   int take_fd)
{
        int r = uv_poll_init(&server->loop, &transport->poll, take_fd);

        if (r) {
                socket_close(server, take_fd);
                return r;
        }
        transport->server = server;
        transport->account = account;
        transport->fd = take_fd;
        transport->closing = transport->is_busy = transport->hung_up = false;
        transport->polled = (struct rounds_member){.list = NULL};
        transport->watched = 0;
        transport->held_until_ns = 0;
        transport->fault = NULL;
        transport->may_bring_fds = server->closer && socket_file_brings_fds(take_fd);
        transport->in_flight = (struct due){.allowance = account->allowance,
                                            .kind = ALLOWANCE_IN_FLIGHT};
        send_queue_init(&transport->send_queue, account->allowance);
        transport_watch(transport);
        return 0;
}

void transport_hold(struct transport *transport, uint64_t until_ns)
{
        if (transport->closing || transport->hung_up)
                return;
        transport->held_until_ns = until_ns;
        look_later(transport);
        transport_watch(transport);
}

void transport_take(struct transport *transport)
{
        (void)receive(transport, FRAMES_A_TURN);
        transport_watch(transport);
}

void transport_catch_up(struct transport *transport)
{
        struct pollfd poll_fd = {.fd = transport->fd, .events = POLLRDHUP};

        if (transport->closing || poll(&poll_fd, 1, 0) <= 0)
                return;
        send_queue_drop_all(&transport->send_queue);
        note_end(transport);
        while (receive(transport, FRAMES_A_TURN) == FRAMES_A_TURN)
                continue;
}

/* The fd is closed after the handle, since libuv may use it until then. */
static void on_closed(uv_handle_t *handle)
{
        struct transport *transport = CONTAINER_OF((uv_poll_t *)handle, struct transport, poll);

        socket_close(transport->server, steal_fd(&transport->fd));
        transport->on_closed(transport);
}

static void close_handle(struct transport *transport)
{
        polling_forget(&transport->server->polling, &transport->polled);
        send_forget(transport);
        uv_close((uv_handle_t *)&transport->poll, on_closed);
}

void transport_close(struct transport *transport)
{
        if (transport->closing)
                return;
        transport->closing = true;
        send_queue_drop_all(&transport->send_queue);
        if (send_is_all_received(transport) || transport->server->stopping) {
                close_handle(transport);
                return;
        }
        (void)uv_poll_stop(&transport->poll);
        (void)shutdown(transport->fd, SHUT_RDWR);
        send_wait(transport);
}

/* The socket is closed when its peer has received the fds in flight. */
static enum rounds_look look_at_end(struct transport *transport)
{
        uint64_t now_ns = transport_now_ns(transport), n_unread;

        if (!transport->server->stopping) {
                if (!backoff_is_over(&transport->backoff, now_ns))
                        return ROUNDS_GLANCED;
                n_unread = send_count_unread(transport);
                backoff_go_on(&transport->backoff, n_unread, now_ns);
                if (n_unread)
                        return ROUNDS_ASKED;
        }
        close_handle(transport);
        return ROUNDS_WORKED;
}

/* Reads at once, so that the next held connection sees what this one has used of the rate. While there is
 * more to read, it stays held, and is read again in its turn. */
static enum rounds_look go_on_reading(struct transport *transport)
{
        uint64_t now_ns = transport_now_ns(transport);
        unsigned n;

        if (!transport->held_until_ns || transport->held_until_ns > now_ns)
                return ROUNDS_GLANCED;
        transport->held_until_ns = transport->hold_until(transport);
        if (transport->held_until_ns)
                return ROUNDS_GLANCED;
        n = receive(transport, FRAMES_A_LOOK);
        if (!n || transport->closing || transport->held_until_ns)
                return n ? ROUNDS_WORKED : ROUNDS_ASKED;
        if (n < FRAMES_A_LOOK)
                return ROUNDS_WORKED;
        transport->held_until_ns = now_ns;
        return ROUNDS_HAS_MORE;
}

enum rounds_look transport_look(struct rounds_member *member)
{
        struct transport *transport = CONTAINER_OF(member, struct transport, polled);
        enum rounds_look sent, was_read;

        if (transport->closing)
                return look_at_end(transport);
        sent = send_try_again(transport);
        was_read = go_on_reading(transport);
        if (!transport->closing && !transport->is_busy && !transport->held_until_ns)
                polling_forget(&transport->server->polling, member);
        transport_watch(transport);
        return sent > was_read ? sent : was_read;
}

void transport_close_waiting(struct server *server)
{
        polling_look_at_all(&server->polling);
}
