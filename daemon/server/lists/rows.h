/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to CLIENTS, BLOCKS and TENANTS: rows of what there is at one moment, and every pool's
 * figures of the same moment, so that sums over the rows can be held against them. On the loop. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/report/listing.h"
#include "daemon/server/session/session.h"
#include "proto/listing.h"

/* Handlers of dispatch.c. */
void list_clients_take(struct session *session, const struct frame *frame);
void list_blocks_take(struct session *session, const struct frame *frame);
void list_tenants_take(struct session *session, const struct frame *frame);

/* list_events.c: EVENTS, without the pools' figures. */
void list_events_take(struct session *session, const struct frame *frame);

/* An array of rows that grows. It owns its memory; `failed` tells that some was missing. */
struct row_buffer {
        char *rows;
        size_t n_row_bytes;
        uint32_t n_rows;
        uint32_t n_room;
        bool failed;
};

void row_buffer_deinit(struct row_buffer *buffer);

/* A copy of `row` at the end. */
void row_buffer_add(struct row_buffer *buffer, const void *row);

/* May the peer see this tenant's rows one by one? */
bool rows_may_show(const struct session *session, const struct tenant *tenant);

/* Sends the rows, or says that there was no memory for them. */
void rows_reply(struct session *session, const struct frame *request, enum message_kind kind,
                const struct row_buffer *buffer);
