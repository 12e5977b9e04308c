/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/connection.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/memfd.h"
#include "client/connection/rows.h"
#include "proto/board.h"

/* A forked child has no client, so it has no board either. */
static int map_board(struct connection *connection, const struct message_welcome *welcome, int fd)
{
        int r;

        if (welcome->n_board_bytes < board_bytes(welcome->n_pools, welcome->n_slots))
                return -EPROTO;
        r = memfd_check(fd, welcome->n_board_bytes);
        if (!r)
                r = memfd_map_shared(fd, welcome->n_board_bytes, &connection->board);
        if (r)
                return r;
        connection->n_board_bytes = welcome->n_board_bytes;
        connection->n_slots = welcome->n_slots;
        /* Else the daemon does not look at it. An older one has sealed it already, and looks. */
        r = memfd_make_pages(fd, connection->board, welcome->n_board_bytes);
        if (r)
                return r;
        (void)memfd_keep_pages(fd);
        return madvise(connection->board, connection->n_board_bytes, MADV_DONTFORK) < 0
                       ? err_errno()
                       : 0;
}

static int read_pools(struct connection *connection, const struct message_welcome *welcome, int fd)
{
        void *rows;
        int r;

        r = rows_read(fd, welcome->n_pools, welcome->n_row_bytes, sizeof(*connection->rows), &rows);
        if (r)
                return r;
        connection->rows = rows;
        connection->n_rows = welcome->n_pools;
        for (uint32_t i = 0; i < connection->n_rows; i++) {
                if (connection->rows[i].id != i)
                        return -EPROTO;
        }
        return 0;
}

int connection_new(const char *socket_path, const struct link_hello *hello, uint64_t serial,
                   struct connection **ret_connection)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct connection *connection = calloc(1, sizeof(*connection));
        struct link_hello said = *hello;
        struct message_welcome welcome;
        int r;

        if (!connection)
                return -ENOMEM;
        atomic_init(&connection->n_refs, 1);
        connection->serial = serial;
        said.seals_board = true;
        r = link_open(socket_path, &said, &connection->link, &welcome, &fds);
        if (!r)
                r = map_board(connection, &welcome, fds.fds[0]);
        if (!r)
                r = read_pools(connection, &welcome, fds.fds[1]);
        if (r) {
                connection_unref(connection);
                return r;
        }
        connection->incarnation = welcome.incarnation;
        connection->features = welcome.features;
        *ret_connection = connection;
        return 0;
}

struct connection *connection_ref(struct connection *connection)
{
        atomic_fetch_add(&connection->n_refs, 1);
        return connection;
}

struct connection *connection_unref(struct connection *connection)
{
        if (!connection || atomic_fetch_sub(&connection->n_refs, 1) != 1)
                return NULL;
        link_free(connection->link);
        if (connection->board)
                (void)munmap(connection->board, connection->n_board_bytes);
        free(connection->rows);
        free(connection);
        return NULL;
}
