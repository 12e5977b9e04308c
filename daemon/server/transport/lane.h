/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that carries frames between clients' sockets and the loop, which then has sockets of its own: what the kernel does
 * for a client's socket takes this thread's time. Frames keep their order and their fds; a client may send no fds. The end of
 * either side reaches the other after the frames before it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct fd_closer;
struct lane;

/* closer: of clients' sockets that may bring fds; NULL: none does. n_all: counts the sockets and files that lanes have. Both
 * outlive the lane. */
int lane_new(struct fd_closer *closer, atomic_uint *n_all, struct lane **ret_lane);

/* It ends soon, and delivers what it has, as far as clients' sockets take that at once. */
void lane_stop(struct lane *lane);

/* NULL is legal; returns NULL. Stops it and waits, until then by clock_now_ns(). If that is not enough, the thread stays: see
 * abandoned_threads.h. */
struct lane *lane_free(struct lane *lane, uint64_t until_ns);

/* Returns a socket in a client's place, which does not block. The caller keeps the client's, and only asks what is
 * unread there and whose it is; the lane has a copy until that socket is closed. */
int lane_take(struct lane *lane, int client_fd, int *ret_fd);

/* Closes a file that takes the kernel long; it counts as a socket until then. On failure nothing is taken. */
int lane_close(struct lane *lane, int take_fd);

/* The sockets and files that it has. */
unsigned lane_n_links(const struct lane *lane);

/* When a call for a client's socket last took long, or 0; by clock_now_ns(). Any thread. */
uint64_t lane_slow_ns(const struct lane *lane);
