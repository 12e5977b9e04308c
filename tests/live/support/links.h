/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the daemon past the library's heaps: leases by number and limits, over connections of their
 * own. Unexpected failures end the test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/connection/link.h"

/* ret_welcome may be NULL; the fds that came with it are let go. */
struct link *open_link(const char *program, struct message_welcome *ret_welcome);

/* The same over the admin socket, or any. */
struct link *open_admin_link(const char *program);
struct link *open_link_at(const char *socket, const char *program,
                          struct message_welcome *ret_welcome);

/* The kind of a request makes that of its answer. */
#define ANSWER 0x8000

/* What link_call returns; the fds of the answer are let go. ret_reply may be NULL. */
int ask_over(struct link *link, struct frame *request, enum message_kind kind,
             struct frame *ret_reply);

/* The rows of a list, for free(); NULL: there are none. The request must go well. */
void *rows_over(struct link *link, struct frame *request, enum message_kind kind,
                size_t n_row_bytes, struct frame *ret_reply);

/* What has no answer. */
void say_over(struct link *link, struct frame *frame, enum message_kind kind);

/* ret_bytes, which may be NULL: what went back. */
int free_all_over(struct link *link, uint32_t scope, uint32_t pool, uint64_t *ret_bytes);
int reset_peaks_over(struct link *link, uint32_t scope, uint32_t pool);

/* The block is not mapped: its fd is let go. The caller gives the lease back. */
int lease_over(struct link *link, const struct message_lease *wanted,
               struct message_leased *ret_leased);
void return_over(struct link *link, uint64_t lease, uint32_t flags);
void unmapped_over(struct link *link, uint64_t lease);

/* ret_max, which may be NULL: what is in force then. */
int set_limit_over(struct link *link, const struct message_set_limits *change, uint64_t *ret_max);

/* A connection and its board. */
struct member {
        struct link *link;
        void *board;
        size_t n_board_bytes;
        _Atomic uint64_t *words;
        uint32_t pinned; /* a pool of pinned memory, the last one; 0 is the device's */
};
struct member member_join(const char *program);
void member_end(struct member *member);

/* Counts the rows of LIMITS for this holder; ret_row is the last of them. */
#define ANY_LIMIT 0 /* is no kind */
unsigned find_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                    struct limit_row *ret_row);
