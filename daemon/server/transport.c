#include "daemon/server/transport.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"

/* Frames taken from one socket before others have their turn. */
#define FRAMES_A_TURN 32

/* Queued frames at which reading stops. */
#define QUEUE_HIGH 64

struct outgoing {
        TAILQ_ENTRY(outgoing) link;
        struct frame frame;
        struct fdset fds; /* duplicates */
        uint32_t pool;    /* whose block the fd is, or TRANSPORT_NO_POOL */
        struct job close_job;
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct transport *transport)
{
        int events = 0;

        if (transport->closing)
                return;
        if (transport->n_queued < QUEUE_HIGH)
                events |= UV_READABLE;
        if (transport->n_queued)
                events |= UV_WRITABLE;
        (void)uv_poll_start(&transport->poll, events, on_poll);
}

/* By now a block's fd may be the last one of its memory: then closing it is the driver's work. */
static void outgoing_free(struct server *server, struct outgoing *outgoing)
{
        if (outgoing->pool == TRANSPORT_NO_POOL) {
                fdset_deinit(&outgoing->fds);
                free(outgoing);
                return;
        }
        outgoing->close_job.take_fd = fdset_steal(&outgoing->fds, 0);
        server_close_later(server, outgoing->pool, &outgoing->close_job, outgoing);
}

static int outgoing_new(const struct frame *frame, const int *fds, uint32_t pool,
                        struct outgoing **ret_outgoing)
{
        struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

        if (!outgoing)
                return -ENOMEM;
        outgoing->frame = *frame;
        outgoing->pool = TRANSPORT_NO_POOL;
        for (unsigned i = 0; i < frame->n_fds; i++) {
                int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

                if (fd < 0) {
                        int r = err_errno();

                        fdset_deinit(&outgoing->fds);
                        free(outgoing);
                        return r;
                }
                (void)fdset_add(&outgoing->fds, fd);
        }
        outgoing->pool = pool;
        *ret_outgoing = outgoing;
        return 0;
}

static void drop_queue(struct transport *transport)
{
        struct outgoing *outgoing;

        while ((outgoing = TAILQ_FIRST(&transport->queue))) {
                TAILQ_REMOVE(&transport->queue, outgoing, link);
                outgoing_free(transport->server, outgoing);
        }
        transport->n_queued = 0;
}

/* The peer's end is learnt by reading it, so that what it sent before is still taken. A connection
 * that cannot be written to for another reason is shut, which reads as its end. */
static void give_up_sending(struct transport *transport)
{
        drop_queue(transport);
        (void)shutdown(transport->fd, SHUT_RDWR);
}

static void flush(struct transport *transport)
{
        struct outgoing *outgoing;

        while ((outgoing = TAILQ_FIRST(&transport->queue))) {
                int r = wire_send(transport->fd, &outgoing->frame, outgoing->fds.fds);

                if (r == -EAGAIN)
                        return;
                if (r) {
                        give_up_sending(transport);
                        return;
                }
                TAILQ_REMOVE(&transport->queue, outgoing, link);
                transport->n_queued--;
                outgoing_free(transport->server, outgoing);
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

                if (transport->n_queued >= QUEUE_HIGH)
                        return false;
                r = wire_receive(transport->fd, FROM_CLIENT, &frame, &fds, &reason);
                if (r == -EAGAIN)
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

int transport_init(struct transport *transport, struct server *server, int take_fd)
{
        int r;

        r = uv_poll_init(&server->loop, &transport->poll, take_fd);
        if (r) {
                closep(&take_fd);
                return r;
        }
        transport->server = server;
        transport->fd = take_fd;
        transport->closing = false;
        transport->n_queued = 0;
        TAILQ_INIT(&transport->queue);
        watch(transport);
        return 0;
}

void transport_send(struct transport *transport, const struct frame *frame, const int *fds,
                    uint32_t pool)
{
        struct outgoing *outgoing;
        int r = -EAGAIN;

        if (transport->closing)
                return;
        if (!transport->n_queued)
                r = wire_send(transport->fd, frame, fds);
        if (r == 0)
                return;
        if (r != -EAGAIN || outgoing_new(frame, fds, pool, &outgoing)) {
                give_up_sending(transport);
                return;
        }
        TAILQ_INSERT_TAIL(&transport->queue, outgoing, link);
        transport->n_queued++;
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

void transport_close(struct transport *transport)
{
        if (transport->closing)
                return;
        transport->closing = true;
        drop_queue(transport);
        uv_close((uv_handle_t *)&transport->poll, on_closed);
}
