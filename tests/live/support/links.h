/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the daemon past the library's heaps: leases by number and limits, over connections of their
 * own. Unexpected failures end the test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/connection/link.h"

/* ret_welcome may be NULL; the fds of the reply are closed. */
struct link *open_link(const char *program, struct message_welcome *ret_welcome);

/* The same over the admin socket, or over a given one. */
struct link *open_admin_link(const char *program);
struct link *open_link_at(const char *socket, const char *program,
                          struct message_welcome *ret_welcome);

/* Sends the request; the kind of the reply follows from its kind. */
#define ANSWER 0x8000

/* The result of link_call; the fds of the reply are closed. ret_reply may be NULL. */
int ask_over(struct link *link, struct frame *request, enum message_kind kind,
             struct frame *ret_reply);

/* The rows of a list, for free(); NULL: there are none. The request must succeed. */
void *rows_over(struct link *link, struct frame *request, enum message_kind kind,
                size_t n_row_bytes, struct frame *ret_reply);

/* A message without a reply. */
void say_over(struct link *link, struct frame *frame, enum message_kind kind);

/* ret_bytes may be NULL: the bytes that went back. */
int free_all_over(struct link *link, uint32_t scope, uint32_t pool, uint64_t *ret_bytes);
int reset_peaks_over(struct link *link, uint32_t scope, uint32_t pool);

/* The block is not mapped: its fd is closed. The caller returns the lease. */
int lease_over(struct link *link, const struct message_lease *wanted,
               struct message_leased *ret_leased);
void return_over(struct link *link, uint64_t lease, uint32_t flags);
void unmapped_over(struct link *link, uint64_t lease);

/* ret_max may be NULL: the limit that then applies. */
int set_limit_over(struct link *link, const struct message_set_limits *change, uint64_t *ret_max);

/* A connection with a board. */
struct member {
        struct link *link;
        void *board;
        size_t n_board_bytes;
        _Atomic uint64_t *words;
        uint32_t n_slots;
        uint32_t pinned; /* the last pool of pinned memory; 0 is the device's pool */
};
struct member member_join(const char *program);
void member_end(struct member *member);

/* Counts the rows of LIMITS for this holder; ret_row is the last one. */
#define ANY_LIMIT 0 /* not a kind of limit */
unsigned find_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                    struct limit_row *ret_row);
