/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the daemon that rows answer. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/connection/link.h"

struct query {
        enum message_kind request;
        enum message_kind reply; /* one with n_rows and n_row_bytes, of its first fd */
        size_t n_row_bytes;      /* of the rows that the asker knows */
};

/* Asks it, the request's fields being set, and again if the daemon took the answer back before it was read.
 * ret_rows: a copy, the caller's to free; NULL if there are none. ret_reply: with the answer's other fields; may
 * be NULL. Errors: those of link_call and rows_read. */
int query_ask(struct link *link, const struct query *query, struct frame *request,
              struct frame *ret_reply, void **ret_rows, uint32_t *ret_n_rows);
