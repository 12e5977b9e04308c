/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that the daemon answers with rows, and with figures of its loop. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/connection/link.h"

struct query {
        enum message_kind request;
        enum message_kind reply; /* has n_rows and n_row_bytes of its first fd */
        size_t n_row_bytes;      /* the size of a row as the caller knows it */
};

/* Sends the request, whose fields the caller has set. Sends it again if the daemon took the reply's rows back before
 * they were read. ret_rows: a copy, which the caller frees; NULL: no rows. ret_reply: has the reply's other fields;
 * may be NULL. Errors: those of link_call and rows_read. */
int query_ask(struct link *link, const struct query *query, struct frame *request,
              struct frame *ret_reply, void **ret_rows, uint32_t *ret_n_rows);

/* The figures of the daemon's loop. GPUMEM_E_UNKNOWN_KIND: it is older, and does not tell them. */
int query_loop(struct link *link, struct message_loop_is *ret_loop);
