/* SPDX-License-Identifier: Apache-2.0 */
/* What attackers do. Each runs in a process of a gang, prepares itself, calls gang_is_ready, and goes on until it is
 * killed. `amount` of the rule says how many connections, if nothing else is said. */
#pragma once

#include "tests/attack/gang.h"

/* Leases of n_bytes, each given back at once, `window` at a time on each connection. Where they cannot be served they
 * are refused, and asked for again. */
void work_lease(struct gang_member *self);

/* The same with leases that stay mapped: one block may be mapped for thousands of them. */
void work_stay_mapped(struct gang_member *self);

/* One connection, and one lease at a time. */
void work_lease_alone(struct gang_member *self);

/* The same, and waits for its socket so often that the kernel takes long to look at all waits, which it does on the daemon's
 * loop whenever a frame comes or goes. */
void work_await_often(struct gang_member *self);

/* As work_lease_alone, from a server that asks for no HELLO. */
void work_lease_from(struct gang_member *self, int fd);

/* As work_lease, in sizes that change, and with all that is cached freed now and then: the driver makes and
 * takes back many blocks. */
void work_churn(struct gang_member *self);

/* Each kind of list and statistics, on connections with leases. */
void work_statistics(struct gang_member *self);

/* Frees the blocks that it has just cached. */
void work_free_all(struct gang_member *self);

/* LEASEs of new blocks, each withdrawn at once: the driver makes blocks that no client waits for. */
void work_withdraw(struct gang_member *self);

/* What this user may not have or does not have. */
void work_denied(struct gang_member *self);

/* LEASEs of n_bytes that wait, 64 on each connection, and small ones that come and go beside. */
void work_wait(struct gang_member *self);

/* Groups of 64 LEASEs of n_bytes that wait, one on each connection, beside some cached blocks of that size. */
void work_groups(struct gang_member *self);

/* LEASEs of n_bytes that wait until the same millisecond. */
void work_deadlines(struct gang_member *self);

/* Holds `amount` leases of n_bytes. */
void work_hold(struct gang_member *self);

/* Connects and leaves again and again, while threads at the lowest priority take pages of the boards away. */
void work_leave_holes(struct gang_member *self);

/* Attaches `window` times on each connection to one block, detaches all, and begins again. */
void work_attach(struct gang_member *self);

/* Shares blocks, whose tokens last longer than their leases. */
void work_tokens(struct gang_member *self);

/* Holds `amount` leases, 1024 on each block: for a gang that is killed. */
void work_await_death(struct gang_member *self);

/* Asks for figures until nothing more is taken, and reads nothing. */
void work_never_read(struct gang_member *self);

/* Never reads, too, and says again and again that it will ask no more. */
void work_nag(struct gang_member *self);

/* Says again and again that it will read no more, on connections that are kept full. */
void work_fill(struct gang_member *self);

/* The same on idle connections. The kernel looks at them each time, and tells gpumemd nothing. */
void work_deaf(struct gang_member *self);

/* Sends malformed frames, is sent away, and comes back. */
void work_malformed(struct gang_member *self);

/* Connects and hangs up, `amount` times a second; 0: as often as it can. */
void work_connect(struct gang_member *self);

/* Connects, says HELLO and hangs up, from a process that has locked `amount` bytes of its own pidfd. */
void work_lock_self(struct gang_member *self);

/* Connects, and says nothing. */
void work_silent(struct gang_member *self);

/* Has children that lease, and are killed. */
void work_die(struct gang_member *self);

/* The first asks for new blocks, on `window` connections. The others have one lease on each connection, and take the pages
 * of their boards away again and again. */
void work_holes(struct gang_member *self);

/* Puts epoll sets with `amount` files into one, again and again. The kernel has one lock for that. */
void work_epoll_sets(struct gang_member *self);

/* Caches `amount` blocks of 2 MiB, and leases one of n_bytes, for which they go back. */
void work_hoard(struct gang_member *self);
