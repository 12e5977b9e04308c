/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks of the daemon, past the heaps: leases by number and limits, over connections of their
 * own. Failures of what a test does not expect to fail end it. */
#pragma once

#include <stdint.h>

#include "client/connection/link.h"

/* ret_welcome may be NULL; the fds that came with it are let go. */
struct link *open_link(const char *program, struct message_welcome *ret_welcome);

/* The same over the admin socket. */
struct link *open_admin_link(const char *program);

/* The block is not mapped: its fd is let go. The caller gives the lease back. */
int lease_over(struct link *link, const struct message_lease *wanted,
               struct message_leased *ret_leased);
void return_over(struct link *link, uint64_t lease, uint32_t flags);
void unmapped_over(struct link *link, uint64_t lease);

/* ret_max, which may be NULL: what is in force then. */
int set_limit_over(struct link *link, const struct message_set_limits *change, uint64_t *ret_max);

/* Counts the rows of LIMITS for this holder; ret_row is the last of them. */
#define ANY_LIMIT 0 /* is no kind */
unsigned find_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                    struct limit_row *ret_row);
