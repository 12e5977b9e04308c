#include "daemon/server/transport.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/server.h"
#include "daemon/server/user.h"
#include "gpumem.h"

/* Frames taken from one socket before others have their turn. */
#define FRAMES_A_TURN 32

/* Queued frames at which reading stops. */
#define QUEUE_HIGH 64

/* Fds that one peer may have in flight. */
#define IN_FLIGHT_MAX 16

/* Between looks at peers that are waited for. */
#define PATIENCE_MS 5

struct outgoing {
        TAILQ_ENTRY(outgoing) link;
        struct frame frame;
        struct fdset fds; /* copies */
        enum transport_fds kind;
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_patience(uv_timer_t *timer);

static bool may_read(const struct transport *transport)
{
        return transport->n_queued < QUEUE_HIGH && !transport->n_queued_fds;
}

static void watch(struct transport *transport)
{
        int events = 0;

        if (transport->closing)
                return;
        if (may_read(transport))
                events |= UV_READABLE;
        if (transport->n_queued && !transport->slow)
                events |= UV_WRITABLE;
        (void)uv_poll_start(&transport->poll, events, on_poll);
}

static void outgoing_free(struct outgoing *outgoing)
{
        fdset_deinit(&outgoing->fds);
        free(outgoing);
}

static int outgoing_new(const struct frame *frame, const int *fds, enum transport_fds kind,
                        struct outgoing **ret_outgoing)
{
        struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

        if (!outgoing)
                return -ENOMEM;
        outgoing->frame = *frame;
        outgoing->kind = kind;
        for (unsigned i = 0; kind == TRANSPORT_COPIED && i < frame->n_fds; i++) {
                int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

                if (fd < 0) {
                        int r = err_errno();

                        outgoing_free(outgoing);
                        return r;
                }
                (void)fdset_add(&outgoing->fds, fd);
        }
        *ret_outgoing = outgoing;
        return 0;
}

static void enqueue(struct transport *transport, struct outgoing *outgoing)
{
        TAILQ_INSERT_TAIL(&transport->queue, outgoing, link);
        transport->n_queued++;
        transport->n_queued_fds += outgoing->fds.n;
}

static void drop_first(struct transport *transport)
{
        struct outgoing *outgoing = TAILQ_FIRST(&transport->queue);

        TAILQ_REMOVE(&transport->queue, outgoing, link);
        transport->n_queued--;
        transport->n_queued_fds -= outgoing->fds.n;
        outgoing_free(outgoing);
}

static void drop_queue(struct transport *transport)
{
        while (!TAILQ_EMPTY(&transport->queue))
                drop_first(transport);
}

/* The peer's end is learnt by reading it, so that what it sent before is still taken. A connection
 * that cannot be written to for another reason is shut, which reads as its end. */
static void give_up_sending(struct transport *transport)
{
        drop_queue(transport);
        (void)shutdown(transport->fd, SHUT_RDWR);
}

static void slow_down(struct transport *transport)
{
        struct server *server = transport->server;

        if (transport->slow)
                return;
        transport->slow = true;
        LIST_INSERT_HEAD(&server->slow, transport, slow_link);
        if (!uv_is_active((uv_handle_t *)&server->patience))
                (void)uv_timer_start(&server->patience, on_patience, PATIENCE_MS, 0);
}

static void speed_up(struct transport *transport)
{
        if (!transport->slow)
                return;
        transport->slow = false;
        LIST_REMOVE(transport, slow_link);
}

static void forget_in_flight(struct transport *transport)
{
        user_note_received(transport->user, transport->n_in_flight);
        transport->n_in_flight = 0;
}

/* What was sent and is not received, the kernel counts, also after the peer's end was shut. */
static bool is_socket_empty(const struct transport *transport)
{
        int n_bytes = 0;

        return ioctl(transport->fd, SIOCOUTQ, &n_bytes) != 0 || n_bytes == 0;
}

bool transport_is_read(const struct transport *transport)
{
        return !transport->n_queued && is_socket_empty(transport);
}

static bool is_all_received(struct transport *transport)
{
        if (!transport->n_in_flight)
                return true;
        if (!is_socket_empty(transport))
                return false;
        forget_in_flight(transport);
        return true;
}

static bool may_send(struct transport *transport, unsigned n_fds)
{
        if (!n_fds)
                return true;
        if (transport->n_in_flight + n_fds <= IN_FLIGHT_MAX &&
            user_may_send(transport->user, n_fds))
                return true;
        return is_all_received(transport) && user_may_send(transport->user, n_fds);
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
                transport->n_in_flight += frame->n_fds;
                user_note_sent(transport->user, frame->n_fds);
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
        const struct outgoing *outgoing = TAILQ_FIRST(&transport->queue);
        int block_fd;

        if (outgoing->kind == TRANSPORT_COPIED)
                return try_send(transport, &outgoing->frame, outgoing->fds.fds);
        block_fd = transport->find_block_fd(transport, lease_of(&outgoing->frame));
        return block_fd < 0 ? 0 : try_send(transport, &outgoing->frame, &block_fd);
}

static void flush(struct transport *transport)
{
        while (!TAILQ_EMPTY(&transport->queue)) {
                int r = try_first(transport);

                if (r == -EBUSY)
                        slow_down(transport);
                if (r == -EBUSY || r == -EAGAIN)
                        return;
                if (r) {
                        give_up_sending(transport);
                        return;
                }
                drop_first(transport);
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

/* An error status means that the peer hung up with bytes unread on its side: nobody is left to send
 * to, but what it sent before is still there to be read. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct transport *transport = CONTAINER_OF(poll, struct transport, poll);

        if (status < 0)
                drop_queue(transport);
        else if (events & UV_WRITABLE)
                flush(transport);
        if (status < 0 || events & UV_READABLE)
                (void)receive(transport);
        watch(transport);
}

int transport_init(struct transport *transport, struct server *server, struct user *user,
                   int take_fd)
{
        int r;

        r = uv_poll_init(&server->loop, &transport->poll, take_fd);
        if (r) {
                closep(&take_fd);
                return r;
        }
        transport->server = server;
        transport->user = user;
        transport->fd = take_fd;
        transport->closing = transport->slow = false;
        transport->n_queued = transport->n_queued_fds = transport->n_in_flight = 0;
        TAILQ_INIT(&transport->queue);
        watch(transport);
        return 0;
}

void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    enum transport_fds kind)
{
        struct outgoing *outgoing = NULL;
        int r = -EAGAIN;

        if (transport->closing)
                return;
        if (!transport->n_queued)
                r = try_send(transport, frame, fds);
        if (r == 0)
                return;
        if (r == -EBUSY)
                slow_down(transport);
        if ((r == -EBUSY || r == -EAGAIN) && outgoing_new(frame, fds, kind, &outgoing) == 0)
                enqueue(transport, outgoing);
        else
                give_up_sending(transport);
        watch(transport);
}

void transport_catch_up(struct transport *transport)
{
        struct pollfd poll_fd = {.fd = transport->fd, .events = POLLRDHUP};

        if (transport->closing || poll(&poll_fd, 1, 0) <= 0)
                return;
        drop_queue(transport);
        while (receive(transport))
                continue;
}

/* The fd is closed after the handle: libuv may still look at it until then. */
static void on_closed(uv_handle_t *handle)
{
        struct transport *transport = CONTAINER_OF((uv_poll_t *)handle, struct transport, poll);

        closep(&transport->fd);
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
        drop_queue(transport);
        if (is_all_received(transport) || server_is_stopping(transport->server)) {
                close_handle(transport);
                return;
        }
        (void)uv_poll_stop(&transport->poll);
        (void)shutdown(transport->fd, SHUT_RDWR);
        slow_down(transport);
}

static void look_after(struct transport *transport)
{
        speed_up(transport);
        if (!transport->closing) {
                flush(transport);
                watch(transport);
        } else if (is_all_received(transport)) {
                close_handle(transport);
        } else {
                slow_down(transport);
        }
}

static void on_patience(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, patience);
        struct transport *transport, *next;

        for (transport = LIST_FIRST(&server->slow); transport; transport = next) {
                next = LIST_NEXT(transport, slow_link);
                look_after(transport);
        }
}

void transport_give_up_slow(struct server *server)
{
        struct transport *transport, *next;

        for (transport = LIST_FIRST(&server->slow); transport; transport = next) {
                next = LIST_NEXT(transport, slow_link);
                if (transport->closing)
                        close_handle(transport);
        }
}
