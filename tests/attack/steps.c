/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/steps.h"

#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/listing.h"
#include "proto/wire.h"
#include "tests/flood/peer.h"

static int read_row(int fd, struct steps *ret_steps)
{
        struct stats_row row;

        if (pread(fd, &row, sizeof(row), 0) != (ssize_t)sizeof(row))
                return -EIO;
        *ret_steps = (struct steps){.n = row.steps, .n_late = row.late_steps};
        return 0;
}

int steps_read(struct steps *ret_steps)
{
        CLEANUP(closep)
        int fd = peer_connect_admin();
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct proto_reason reason;
        int r = fd < 0 ? GPUMEM_E_DISCONNECTED : peer_hello(fd);

        if (!r)
                r = peer_send(fd, &request, MESSAGE_STATS);
        if (!r)
                r = wire_receive(fd, FROM_DAEMON, &reply, &fds, &reason);
        if (r)
                return r;
        return reply.kind == MESSAGE_STATS_REPLY && fds.n == 1 ? read_row(fds.fds[0], ret_steps)
                                                               : GPUMEM_E_BAD_FRAME;
}
