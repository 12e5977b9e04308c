#include "daemon/server/transport.h"

#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/deadlines.h"
#include "daemon/server/listener.h"
#include "daemon/server/server.h"
#include "daemon/server/socket_file.h"
#include "gpumem.h"

/* Frames taken from one socket before others have their turn. */
#define FRAMES_A_TURN 32

/* Queued frames at which reading stops. */
#define QUEUE_HIGH 64

/* Fds that one peer may have in flight. */
#define IN_FLIGHT_MAX 16

/* Between looks at peers that are waited for. */
#define PATIENCE_MS 5

static const struct proto_reason fds_came = {"fds that this side cannot take", NULL};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_patience(uv_timer_t *timer);

static bool may_read(const struct transport *transport)
{
        return transport->queue.n < QUEUE_HIGH && !transport->queue.fds.n &&
               !transport->held_until_ns;
}

static void watch(struct transport *transport)
{
        int events = 0;

        if (transport->closing)
                return;
        if (may_read(transport))
                events |= UV_READABLE;
        else if (transport->held_until_ns)
                events |= UV_DISCONNECT;
        if (transport->queue.n && !transport->slow)
                events |= UV_WRITABLE;
        (void)uv_poll_start(&transport->poll, events, on_poll);
}

/* What the kernel holds of what was sent; also after the peer's end was shut. */
static uint64_t count_unread(const struct transport *transport)
{
        int n_bytes = 0;

        return ioctl(transport->fd, SIOCOUTQ, &n_bytes) == 0 && n_bytes > 0 ? (uint64_t)n_bytes : 0;
}

/* The peer's end is learnt by reading it, so that what it sent before is still taken. A connection
 * that cannot be written to for another reason is shut, which reads as its end. */
static void give_up_sending(struct transport *transport)
{
        queue_drop_all(&transport->queue);
        (void)shutdown(transport->fd, SHUT_RDWR);
}

static void slow_down(struct transport *transport)
{
        struct server *server = transport->server;

        if (transport->slow)
                return;
        transport->slow = true;
        TAILQ_INSERT_TAIL(&server->slow, transport, slow_link);
        server->n_slow++;
        if (!uv_is_active((uv_handle_t *)&server->patience))
                (void)uv_timer_start(&server->patience, on_patience, PATIENCE_MS, 0);
}

static void speed_up(struct transport *transport)
{
        if (!transport->slow)
                return;
        transport->slow = false;
        TAILQ_REMOVE(&transport->server->slow, transport, slow_link);
        transport->server->n_slow--;
}

static void forget_in_flight(struct transport *transport)
{
        due_shrink(&transport->in_flight, transport->in_flight.n);
}

bool transport_is_read(const struct transport *transport)
{
        return !transport->queue.n && !count_unread(transport);
}

static bool is_all_received(struct transport *transport)
{
        if (!transport->in_flight.n)
                return true;
        if (count_unread(transport))
                return false;
        forget_in_flight(transport);
        return true;
}

static bool may_send(struct transport *transport, unsigned n_fds)
{
        const struct allowance *allowance = transport->account->allowance;

        if (!n_fds)
                return true;
        if (transport->in_flight.n + n_fds <= IN_FLIGHT_MAX &&
            allowance_fits(allowance, ALLOWANCE_IN_FLIGHT, n_fds))
                return true;
        return is_all_received(transport) && allowance_fits(allowance, ALLOWANCE_IN_FLIGHT, n_fds);
}

/* -EAGAIN: the loop will tell when to go on; -EBUSY: it will not. */
static int try_send(struct transport *transport, const struct frame *frame, const int *fds)
{
        int r;

        if (!may_send(transport, frame->n_fds))
                return -EBUSY;
        r = wire_send(transport->fd, frame, fds);
        switch (r) {
        case 0:
                due_grow(&transport->in_flight, frame->n_fds);
                return 0;
        /* Others' doing, and not for ever. */
        case -ETOOMANYREFS:
        case -ENOBUFS:
        case -ENOMEM:
                return -EBUSY;
        default:
                return r;
        }
}

static uint64_t lease_of(const struct frame *frame)
{
        return frame->kind == MESSAGE_LEASED ? frame->leased.lease : frame->attached.lease;
}

static int try_first(struct transport *transport)
{
        const struct outgoing *outgoing = queue_first(&transport->queue);
        int block_fd;

        if (outgoing->kind == TRANSPORT_COPIED)
                return try_send(transport, &outgoing->frame, outgoing->fds.fds);
        block_fd = transport->find_block_fd(transport, lease_of(&outgoing->frame));
        return block_fd < 0 ? 0 : try_send(transport, &outgoing->frame, &block_fd);
}

static void flush(struct transport *transport)
{
        while (transport->queue.n) {
                int r = try_first(transport);

                if (r == -EBUSY)
                        slow_down(transport);
                if (r == -EBUSY || r == -EAGAIN)
                        return;
                if (r) {
                        give_up_sending(transport);
                        return;
                }
                queue_drop_first(&transport->queue);
                stall_begin(&transport->stall, count_unread(transport),
                            server_now_ns(transport->server));
        }
}

/* Returns whether there may be more. */
static bool receive(struct transport *transport)
{
        for (unsigned i = 0; i < FRAMES_A_TURN && !transport->closing; i++) {
                CLEANUP(fdset_deinit)
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason = {"a fault of the system's", NULL};
                struct frame frame;
                int r;

                if (!may_read(transport))
                        return false;
                if (transport->may_bring_fds && wire_brings_fds(transport->fd)) {
                        transport->on_end(transport, &fds_came);
                        continue;
                }
                r = wire_receive(transport->fd, FROM_CLIENT, &frame, &fds, &reason);
                if (r == -EAGAIN || r == -EINTR)
                        return false;
                if (r == 0 || r == GPUMEM_E_UNKNOWN_KIND)
                        transport->on_frame(transport, r, &frame);
                else
                        transport->on_end(transport, r == GPUMEM_E_DISCONNECTED ? NULL : &reason);
        }
        return !transport->closing;
}

/* It is held no more: its process may have ended, and others wait for what it had. */
static void note_end(struct transport *transport)
{
        transport->hung_up = true;
        transport->held_until_ns = 0;
}

/* An error status means that the peer hung up with bytes unread on its side: nobody is left to send
 * to, but what it sent before is still there to be read. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct transport *transport = CONTAINER_OF(poll, struct transport, poll);

        if (status < 0)
                queue_drop_all(&transport->queue);
        else if (events & UV_WRITABLE)
                flush(transport);
        if (transport->held_until_ns && (status < 0 || events & UV_DISCONNECT))
                note_end(transport);
        if (status < 0 || events & (UV_READABLE | UV_DISCONNECT))
                (void)receive(transport);
        watch(transport);
}

int transport_init(struct transport *transport, struct server *server, struct account *account,
                   int take_fd)
{
        int r;

        r = uv_poll_init(&server->loop, &transport->poll, take_fd);
        if (r) {
                listener_close_socket(server, take_fd);
                return r;
        }
        transport->server = server;
        transport->account = account;
        transport->fd = take_fd;
        transport->closing = transport->slow = transport->hung_up = false;
        transport->held_until_ns = 0;
        transport->fault = NULL;
        transport->may_bring_fds = server->closer && socket_file_brings_fds(take_fd);
        transport->in_flight = (struct due){.allowance = account->allowance,
                                            .kind = ALLOWANCE_IN_FLIGHT};
        queue_init(&transport->queue, account->allowance);
        watch(transport);
        return 0;
}

/* On failure the connection cannot go on: an answer is missing. */
static bool put_off(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        struct server *server = transport->server;
        bool is_first = transport->queue.n == 0;
        int r = queue_put(&transport->queue, frame, fds, kind);

        if (r) {
                transport->fault =
                        r > 0 ? "more answers wait for it, or for its tenant or user, than may wait"
                              : "the daemon lacks memory or fds for an answer";
                return false;
        }
        if (is_first)
                stall_begin(&transport->stall, count_unread(transport), server_now_ns(server));
        deadlines_watch(server);
        return true;
}

void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        int r = -EAGAIN;

        if (transport->closing)
                return;
        if (!transport->queue.n)
                r = try_send(transport, frame, fds);
        if (r == 0)
                return;
        if (r == -EBUSY)
                slow_down(transport);
        if ((r != -EBUSY && r != -EAGAIN) || !put_off(transport, frame, fds, kind))
                give_up_sending(transport);
        watch(transport);
}

bool transport_is_stalled(struct transport *transport, uint64_t patience_ns)
{
        return !transport->closing && transport->queue.n &&
               stall_is_over(&transport->stall, count_unread(transport), patience_ns,
                             server_now_ns(transport->server));
}

void transport_hold(struct transport *transport, uint64_t until_ns)
{
        if (transport->closing || transport->hung_up)
                return;
        transport->held_until_ns = until_ns;
        slow_down(transport);
        watch(transport);
}

void transport_take(struct transport *transport)
{
        (void)receive(transport);
        watch(transport);
}

void transport_catch_up(struct transport *transport)
{
        struct pollfd poll_fd = {.fd = transport->fd, .events = POLLRDHUP};

        if (transport->closing || poll(&poll_fd, 1, 0) <= 0)
                return;
        queue_drop_all(&transport->queue);
        note_end(transport);
        while (receive(transport))
                continue;
}

/* The fd is closed after the handle: libuv may still look at it until then. */
static void on_closed(uv_handle_t *handle)
{
        struct transport *transport = CONTAINER_OF((uv_poll_t *)handle, struct transport, poll);

        listener_close_socket(transport->server, steal_fd(&transport->fd));
        transport->on_closed(transport);
}

static void close_handle(struct transport *transport)
{
        speed_up(transport);
        forget_in_flight(transport);
        uv_close((uv_handle_t *)&transport->poll, on_closed);
}

void transport_close(struct transport *transport)
{
        if (transport->closing)
                return;
        transport->closing = true;
        queue_drop_all(&transport->queue);
        if (is_all_received(transport) || server_is_stopping(transport->server)) {
                close_handle(transport);
                return;
        }
        (void)uv_poll_stop(&transport->poll);
        (void)shutdown(transport->fd, SHUT_RDWR);
        slow_down(transport);
}

/* Read at once, so that the next one finds what this one has used. Returns whether it was. */
static bool go_on_reading(struct transport *transport)
{
        if (transport->held_until_ns > server_now_ns(transport->server))
                return false;
        transport->held_until_ns = transport->hold_until(transport);
        if (transport->held_until_ns)
                return false;
        (void)receive(transport);
        return true;
}

static bool look_after(struct transport *transport)
{
        bool was_read = false;

        speed_up(transport);
        if (!transport->closing) {
                flush(transport);
                if (transport->held_until_ns)
                        was_read = go_on_reading(transport);
                if (transport->held_until_ns)
                        slow_down(transport);
                else
                        watch(transport);
        } else if (is_all_received(transport)) {
                close_handle(transport);
        } else {
                slow_down(transport);
        }
        return was_read;
}

/* Each once. Those that were read come last the next time. */
static void on_patience(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, patience);
        unsigned n_read = 0;

        for (unsigned n = server->n_slow; n && server->n_slow; n--)
                n_read += look_after(TAILQ_FIRST(&server->slow));
        for (; n_read && server->n_slow; n_read--) {
                struct transport *transport = TAILQ_FIRST(&server->slow);

                speed_up(transport);
                slow_down(transport);
        }
}

void transport_give_up_slow(struct server *server)
{
        struct transport *transport, *next;

        for (transport = TAILQ_FIRST(&server->slow); transport; transport = next) {
                next = TAILQ_NEXT(transport, slow_link);
                if (transport->closing)
                        close_handle(transport);
        }
}
