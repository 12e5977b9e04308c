/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/send_queue.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/backing/worker/fd_closer.h"
#include "gpumem.h"

void send_queue_init(struct send_queue *queue, struct allowance *allowance,
                     struct fd_closer *closer)
{
        TAILQ_INIT(&queue->list);
        queue->n = 0;
        queue->closer = closer;
        queue->fds = (struct due){.allowance = allowance, .kind = ALLOWANCE_QUEUED_FDS};
        queue->bytes = (struct due){.allowance = allowance, .kind = ALLOWANCE_QUEUED_BYTES};
}

static void outgoing_free(struct outgoing *outgoing, struct fd_closer *closer)
{
        for (unsigned i = 0; i < outgoing->fds.n; i++)
                fd_closer_take_file(closer, fdset_steal(&outgoing->fds, i));
        free(outgoing);
}

static int copy_fds(struct fdset *set, const int *fds, unsigned n_fds)
{
        for (unsigned i = 0; i < n_fds; i++) {
                int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

                if (fd < 0)
                        return err_errno();
                (void)fdset_add(set, fd);
        }
        return 0;
}

static bool fits(const struct send_queue *queue, unsigned n_fds)
{
        return queue->bytes.n + sizeof(struct outgoing) <= SEND_QUEUE_BYTES_MAX &&
               allowance_fits(queue->bytes.allowance, ALLOWANCE_QUEUED_BYTES,
                              sizeof(struct outgoing)) &&
               (!n_fds || allowance_fits(queue->fds.allowance, ALLOWANCE_QUEUED_FDS, n_fds));
}

int send_queue_put(struct send_queue *queue, const struct frame *frame, const int *fds,
                   enum transport_fds kind)
{
        unsigned n_fds = kind == TRANSPORT_COPIED ? frame->n_fds : 0;
        struct outgoing *outgoing;
        int r;

        if (!fits(queue, n_fds))
                return GPUMEM_E_TOO_MANY;
        outgoing = calloc(1, sizeof(*outgoing));
        if (!outgoing)
                return -ENOMEM;
        outgoing->frame = *frame;
        outgoing->kind = kind;
        r = copy_fds(&outgoing->fds, fds, n_fds);
        if (r) {
                outgoing_free(outgoing, queue->closer);
                return r;
        }
        TAILQ_INSERT_TAIL(&queue->list, outgoing, link);
        queue->n++;
        due_grow(&queue->fds, n_fds);
        due_grow(&queue->bytes, sizeof(*outgoing));
        return 0;
}

const struct outgoing *send_queue_first(const struct send_queue *queue)
{
        return TAILQ_FIRST(&queue->list);
}

void send_queue_drop_first(struct send_queue *queue)
{
        struct outgoing *outgoing = TAILQ_FIRST(&queue->list);

        TAILQ_REMOVE(&queue->list, outgoing, link);
        queue->n--;
        due_shrink(&queue->fds, outgoing->fds.n);
        due_shrink(&queue->bytes, sizeof(*outgoing));
        outgoing_free(outgoing, queue->closer);
}

void send_queue_drop_all(struct send_queue *queue)
{
        while (queue->n)
                send_queue_drop_first(queue);
}
