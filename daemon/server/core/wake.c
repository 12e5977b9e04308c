/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/wake.h"

#include <sys/eventfd.h>

#include "base/err.h"
#include "base/fdset.h"

/* What is done after `is_sent` is false again is told again. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
        struct wake *wake = CONTAINER_OF(poll, struct wake, poll);
        eventfd_t n;

        (void)status;
        (void)events;
        (void)eventfd_read(wake->fd, &n);
        (void)atomic_exchange(&wake->is_sent, false);
        wake->on_wake(wake);
}

int wake_open(struct wake *wake, uv_loop_t *loop, void (*on_wake)(struct wake *wake))
{
        int r;

        *wake = WAKE_NULL;
        wake->on_wake = on_wake;
        wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (wake->fd < 0)
                return err_errno();
        r = uv_poll_init(loop, &wake->poll, wake->fd);
        if (r) {
                closep(&wake->fd);
                return r;
        }
        (void)uv_poll_start(&wake->poll, UV_READABLE, on_readable);
        return 0;
}

void wake_send(struct wake *wake)
{
        if (!atomic_exchange(&wake->is_sent, true))
                (void)eventfd_write(wake->fd, 1);
}

void wake_deinit(struct wake *wake)
{
        closep(&wake->fd);
}
