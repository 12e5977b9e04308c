/* SPDX-License-Identifier: Apache-2.0 */
/* Times the calls for what clients can make long to use or to close: sockets, and pidfds, whose process can lock bytes of
 * them. Those of users that turn out slow go to their lanes (lanes.h). On the loop. */
#pragma once

#include "base/clock.h"
#include "daemon/server/core/server_state.h"

/* Notes a call for a socket of the owner's (as of its payer) that began then, by clock_now_ns(). */
void slow_socket_note(struct server *server, uint64_t owner, uint64_t since_ns);

/* If the owner is slow: *fd becomes a socket in the place of peer_fd, as of lane_take. Errors as of lanes_take. */
int slow_socket_to_lane(struct server *server, uint64_t owner, int peer_fd, int *fd);

/* Closes a pidfd of the owner's, or a socket that brings no fds; -1 is nothing. */
void slow_socket_close(struct server *server, uint64_t owner, int take_fd);

/* Closes a socket of the owner's. Fds may be in it, and take as long to close as the owner likes. */
void slow_socket_close_peers(struct server *server, uint64_t owner, int take_fd);
