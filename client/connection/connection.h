/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a daemon, with the contents of WELCOME: the daemon's incarnation, the board, and the pools as
 * that daemon numbers them.
 *
 * Reference-counted: a thread that is in a call or writes to the board holds a reference. The last one says BYE. The
 * fields never change. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "client/connection/link.h"

struct connection {
        atomic_uint n_refs;
        struct link *link;
        uint64_t serial; /* counts the connections of one client, from 1 */
        uint64_t incarnation;
        uint64_t features; /* PROTO_FEATURE_*, in force */
        void *board;
        size_t n_board_bytes;
        uint32_t n_slots;      /* lease words on the board: so many leases the client may have */
        struct pool_row *rows; /* row i has id i */
        uint32_t n_rows;
};

/* Errors as link_open; -EPROTO: the parts of WELCOME do not fit together. */
int connection_new(const char *socket_path, const struct link_hello *hello, uint64_t serial,
                   struct connection **ret_connection);

struct connection *connection_ref(struct connection *connection);

/* NULL is legal; returns NULL. */
struct connection *connection_unref(struct connection *connection);
