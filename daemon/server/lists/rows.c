/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/server/session/authorization.h"

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
