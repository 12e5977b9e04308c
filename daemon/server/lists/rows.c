/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/reply_files.h"
#include "gpumem.h"

#define FIRST_ROOM 64

void row_buffer_deinit(struct row_buffer *buffer)
{
        free(buffer->rows);
}

static int grow(struct row_buffer *buffer)
{
        uint32_t n_room = buffer->n_room ? 2 * buffer->n_room : FIRST_ROOM;
        char *rows;

        if (buffer->n_rows < buffer->n_room)
                return 0;
        if (n_room > PROTO_ROWS_MAX)
                return -E2BIG;
        rows = reallocarray(buffer->rows, n_room, buffer->n_row_bytes);
        if (!rows)
                return -ENOMEM;
        buffer->rows = rows;
        buffer->n_room = n_room;
        return 0;
}

void row_buffer_add(struct row_buffer *buffer, const void *row)
{
        if (buffer->failed || grow(buffer)) {
                buffer->failed = true;
                return;
        }
        memcpy(buffer->rows + buffer->n_rows * buffer->n_row_bytes, row, buffer->n_row_bytes);
        buffer->n_rows++;
}

bool rows_may_show(const struct session *session, const struct tenant *tenant)
{
        return authorization_sees_all(session) || client_tenant(session->client) == tenant;
}

/* The replies differ in their kind only. */
static_assert(sizeof(struct message_clients_reply) == sizeof(struct message_blocks_reply) &&
                      sizeof(struct message_clients_reply) == sizeof(struct message_tenants_reply),
              "one layout for every list");

static int make_fds(struct session *session, const struct row_buffer *buffer, struct fdset *fds)
{
        int fd, r;

        r = reply_files_make(session, buffer->rows, buffer->n_rows * buffer->n_row_bytes, &fd);
        if (!r)
                r = fdset_add(fds, fd);
        if (!r)
                r = list_stats_make(session, &fd);
        return r ? r : fdset_add(fds, fd);
}

void rows_reply(struct session *session, const struct frame *request, enum message_kind kind,
                const struct row_buffer *buffer)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame reply = FRAME_NULL;

        if (buffer->failed || make_fds(session, buffer, &fds)) {
                session_send_error(session, request->serial, GPUMEM_E_TOO_MANY,
                                   "out of memory in gpumemd");
                return;
        }
        reply.clients_reply = (struct message_clients_reply){
                .n_rows = buffer->n_rows,
                .n_row_bytes = (uint32_t)buffer->n_row_bytes,
                .n_pools = session->server->n_pools,
                .n_pool_bytes = sizeof(struct stats_row),
        };
        session_send(session, &reply, kind, request->serial, fds.fds, fds.n);
}
