/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memfd.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/reply_files.h"

#define FIRST_ROOM 64

static void close_file(struct row_buffer *buffer)
{
        if (buffer->has_file)
                (void)close(buffer->file);
        buffer->has_file = false;
}

void row_buffer_deinit(struct row_buffer *buffer)
{
        close_file(buffer);
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

static size_t n_all_bytes(const struct row_buffer *buffer)
{
        return buffer->n_rows * buffer->n_row_bytes;
}

static void begin_file(struct row_buffer *buffer)
{
        close_file(buffer);
        buffer->has_file = memfd_new(REPLY_FILES_NAME, n_all_bytes(buffer), &buffer->file) == 0;
        buffer->failed = buffer->failed || !buffer->has_file;
}

bool row_buffer_write_some(struct row_buffer *buffer, struct numbered_walk *place)
{
        uint32_t n_rows = buffer->n_rows - place->next;
        size_t offset = place->next * buffer->n_row_bytes;

        if (!place->next && !buffer->failed)
                begin_file(buffer);
        if (buffer->failed)
                return false;
        if (n_rows > place->n_items)
                n_rows = place->n_items;
        buffer->failed = memfd_write(buffer->file, buffer->rows + offset,
                                     n_rows * buffer->n_row_bytes, offset) != 0;
        place->next += n_rows;
        place->n_items -= n_rows;
        return place->next < buffer->n_rows;
}

int row_buffer_take_file(struct row_buffer *buffer, struct session *session, int *ret_fd)
{
        int r = buffer->failed ? -ENOMEM : 0;

        if (!r && n_all_bytes(buffer))
                r = reply_files_keep(session, buffer->file, n_all_bytes(buffer));
        if (r)
                return r;
        buffer->has_file = false;
        *ret_fd = buffer->file;
        return 0;
}

bool rows_may_show(const struct session *session, const struct tenant *tenant)
{
        return authorization_sees_all(session) || client_tenant(session->client) == tenant;
}
