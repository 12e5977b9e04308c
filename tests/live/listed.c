/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/listed.h"

#include <check.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/connection/rows.h"

static enum message_kind reply_to(enum message_kind kind)
{
        if (kind == MESSAGE_CLIENTS)
                return MESSAGE_CLIENTS_REPLY;
        return kind == MESSAGE_BLOCKS ? MESSAGE_BLOCKS_REPLY : MESSAGE_TENANTS_REPLY;
}

static size_t row_bytes(enum message_kind kind)
{
        if (kind == MESSAGE_CLIENTS)
                return sizeof(struct client_row);
        return kind == MESSAGE_BLOCKS ? sizeof(struct block_row) : sizeof(struct tenant_row);
}

struct listed listed_fetch(struct link *link, enum message_kind kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct listed listed = {.n_rows = 0};
        void *pools;

        if (kind == MESSAGE_BLOCKS)
                request.blocks.pool = PROTO_ALL_POOLS;
        ck_assert_int_eq(link_call(link, &request, kind, reply_to(kind), &reply, &fds), 0);
        ck_assert_uint_eq(fds.n, 2);
        listed.n_rows = reply.clients_reply.n_rows;
        if (listed.n_rows)
                ck_assert_int_eq(rows_read(fds.fds[0], listed.n_rows,
                                           reply.clients_reply.n_row_bytes, row_bytes(kind),
                                           &listed.rows),
                                 0);
        listed.n_pools = reply.clients_reply.n_pools;
        ck_assert_int_eq(rows_read(fds.fds[1], listed.n_pools, reply.clients_reply.n_pool_bytes,
                                   sizeof(*listed.pools), &pools),
                         0);
        listed.pools = pools;
        fdset_deinit(&fds);
        return listed;
}

struct listed listed_now(enum message_kind kind)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct listed listed;
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "listing", &link, &welcome, &fds), 0);
        listed = listed_fetch(link, kind);
        fdset_deinit(&fds);
        link_free(link);
        return listed;
}

void listed_free(struct listed *listed)
{
        free(listed->rows);
        free(listed->pools);
}
