/* SPDX-License-Identifier: Apache-2.0 */
/* The half of a connection that sends: what the socket takes, what waits, and the fds that are on their way.
 * transport.c has the other one. On the loop. */
#pragma once

#include "daemon/server/transport/transport.h"

/* Sends of what waits as much as the socket takes. */
void send_flush(struct transport *transport);

/* What the kernel holds of what was sent; also after the peer's end was shut. */
uint64_t send_count_unread(const struct transport *transport);

/* Whether the peer has taken the fds that were sent. */
bool send_is_all_received(struct transport *transport);

/* It does not matter any more. */
void send_forget(struct transport *transport);

/* It waits for something of which nobody tells: that is looked at from time to time. */
void send_wait(struct transport *transport);

/* Such a look, if one is due. */
enum rounds_look send_try_again(struct transport *transport);
