/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/links.h"

#include <stdlib.h>

#include "base/fdset.h"
#include "client/connection/rows.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

static struct link *open_at(const char *socket, const char *program,
                            struct message_welcome *ret_welcome)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(socket, program, &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        if (ret_welcome)
                *ret_welcome = welcome;
        return link;
}

struct link *open_link(const char *program, struct message_welcome *ret_welcome)
{
        return open_at(NULL, program, ret_welcome);
}

struct link *open_admin_link(const char *program)
{
        return open_at(daemon_admin_socket(), program, NULL);
}

int lease_over(struct link *link, const struct message_lease *wanted,
               struct message_leased *ret_leased)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease = *wanted;
        r = link_call(link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        if (!r)
                *ret_leased = reply.leased;
        fdset_deinit(&fds);
        return r;
}

void return_over(struct link *link, uint64_t lease, uint32_t flags)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = flags;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_RETURN), 0);
}

void unmapped_over(struct link *link, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_UNMAPPED), 0);
}

int set_limit_over(struct link *link, const struct message_set_limits *change, uint64_t *ret_max)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.set_limits = *change;
        r = link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds);
        if (!r && ret_max)
                *ret_max = reply.limits_set.max;
        return r;
}

unsigned find_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                    struct limit_row *ret_row)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        const struct limit_row *rows;
        unsigned n_found = 0;
        void *sent;

        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_LIMITS, MESSAGE_LIMITS_REPLY, &reply, &fds), 0);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.limits_reply.n_rows,
                                   reply.limits_reply.n_row_bytes, sizeof(*rows), &sent),
                         0);
        rows = sent;
        for (uint32_t i = 0; i < reply.limits_reply.n_rows; i++) {
                if (rows[i].scope != scope || rows[i].holder != holder ||
                    (kind != ANY_LIMIT && rows[i].kind != kind))
                        continue;
                *ret_row = rows[i];
                n_found++;
        }
        free(sent);
        fdset_deinit(&fds);
        return n_found;
}
