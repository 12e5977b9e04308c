/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/query.h"

#include "base/err.h"
#include "client/connection/rows.h"

/* The daemon takes rows back that were not read for seconds. A client that is that slow three times gets no answer. */
#define TURNS_MAX 3

static void read_head(const struct frame *reply, uint32_t *ret_n_rows, uint32_t *ret_n_row_bytes)
{
#define HEAD(KIND, name)                                    \
        case MESSAGE_##KIND:                                \
                *ret_n_rows = reply->name.n_rows;           \
                *ret_n_row_bytes = reply->name.n_row_bytes; \
                break;
        switch (reply->kind) {
                HEAD(POOLS_REPLY, pools_reply)
                HEAD(STATS_REPLY, stats_reply)
                HEAD(CLIENTS_REPLY, clients_reply)
                HEAD(BLOCKS_REPLY, blocks_reply)
                HEAD(TENANTS_REPLY, tenants_reply)
                HEAD(EVENTS_REPLY, events_reply)
                HEAD(LIMITS_REPLY, limits_reply)
        default:
                break;
        }
#undef HEAD
}

static int ask_once(struct link *link, const struct query *query, struct frame *request,
                    struct frame *ret_reply, void **ret_rows, uint32_t *ret_n_rows)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame reply;
        uint32_t n_rows = 0, n_row_bytes = 0;
        void *rows = NULL;
        int r;

        r = link_call(link, request, query->request, query->reply, &reply, &fds);
        if (r)
                return r;
        read_head(&reply, &n_rows, &n_row_bytes);
        if (n_rows)
                r = rows_read(fds.fds[0], n_rows, n_row_bytes, query->n_row_bytes, &rows);
        if (r)
                return r;
        if (ret_reply)
                *ret_reply = reply;
        *ret_rows = rows;
        *ret_n_rows = n_rows;
        return 0;
}

int query_ask(struct link *link, const struct query *query, struct frame *request,
              struct frame *ret_reply, void **ret_rows, uint32_t *ret_n_rows)
{
        int r = -ENODATA;

        for (unsigned i = 0; i < TURNS_MAX && r == -ENODATA; i++)
                r = ask_once(link, query, request, ret_reply, ret_rows, ret_n_rows);
        return r;
}

int query_loop(struct link *link, struct message_loop_is *ret_loop)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r = link_call(link, &request, MESSAGE_LOOP, MESSAGE_LOOP_IS, &reply, &fds);

        if (!r)
                *ret_loop = reply.loop_is;
        return r;
}
