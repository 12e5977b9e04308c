/* SPDX-License-Identifier: Apache-2.0 */
/* Replies to CLIENTS, BLOCKS and TENANTS: rows, with the pools' statistics. They are made in parts (list_stats.h), and
 * of one moment if `list_changes` there is 0: sums over blocks can then be compared with them. What clients report or
 * mark idle may change meanwhile all the same. On the loop. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/report/listing.h"
#include "daemon/server/session/session.h"
#include "proto/listing.h"

/* Handlers of dispatch.c. */
void list_clients_take(struct session *session, const struct frame *frame);
void list_blocks_take(struct session *session, const struct frame *frame);
void list_tenants_take(struct session *session, const struct frame *frame);

/* In list_events.c: EVENTS, without the pools' statistics. */
void list_events_take(struct session *session, const struct frame *frame);

/* Rows that are being added, and the file into which they are written when all of them are there. It owns both. `failed` is
 * set when a row or the file could not be made; is_beyond, too, if that was for ROWS_MAX_BYTES_AN_OWNER. */
struct row_buffer {
        struct fd_closer *closer; /* of the file, and of the rows; may be NULL */
        size_t n_row_bytes;
        uint32_t n_rows;
        uint32_t n_written;
        struct row_chunk *first,
                *last; /* those that are not in the file; `last` is valid if there is one */
        bool failed, is_beyond;
        uint64_t n_bytes; /* of all rows, and what else was counted; and */
        uint64_t
                *n_owner_bytes; /* in all lists of its owner that are being made; NULL: no matter */
        bool has_file;
        int file; /* valid if has_file */
};

/* What the lists of one owner may hold while they are made, if there are several: each connection can have one made, of all
 * the owner's blocks. One alone may have any size. Of operators none is counted. */
#define ROWS_MAX_BYTES_AN_OWNER (UINT64_C(64) << 20)

/* For a list that the session asked for. */
void row_buffer_init(struct row_buffer *buffer, struct session *session, size_t n_row_bytes);

/* Frees rows and file: the buffer is as before its first row. A thread frees what would take long. */
void row_buffer_clear(struct row_buffer *buffer);

/* Makes n zeros of n_bytes each, which the caller frees, and which count as rows do. NULL: `failed` is set. */
void *row_buffer_calloc(struct row_buffer *buffer, size_t n, size_t n_bytes);

/* Appends a copy of `row`. It may be changed where it is until rows are written. NULL: `failed` is set. */
void *row_buffer_add(struct row_buffer *buffer, const void *row);

/* A part of a walk, after those that add rows: writes the next rows into the file. Returns whether rows are left. */
bool row_buffer_write_some(struct row_buffer *buffer);

/* The file, with all rows, for the session's reply. Negative if it could not be made. */
int row_buffer_take_file(struct row_buffer *buffer, struct session *session, int *ret_fd);

/* Answers that request with why there is no file. r: of row_buffer_take_file. */
void row_buffer_refuse(const struct row_buffer *buffer, struct session *session, uint32_t serial,
                       int r);

/* The same where there is no buffer. r: of reply_files_make. */
void rows_refuse_file(struct session *session, uint32_t serial, int r);

/* Whether the peer may see this tenant's rows one by one. */
bool rows_may_show(const struct session *session, const struct tenant *tenant);
