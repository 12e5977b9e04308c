/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of a connection: writes to the socket, queues frames, and counts fds in flight.
 * transport.c has the other half. On the loop. */
#pragma once

#include "daemon/server/transport/transport.h"

/* Sends some queued frames. The connection's next step sends more, unless the socket takes no more now. */
void send_flush(struct transport *transport);

/* Ends the connection in both directions; the peer can read what it was sent. */
void send_shut_down(struct transport *transport);

/* Bytes that the peer has not read yet; also after the peer has shut down its end. */
uint64_t send_count_unread(const struct transport *transport);

/* Whether the peer has received all fds that were sent. */
bool send_is_all_received(struct transport *transport);

/* Stops to count the fds in flight. */
void send_forget(struct transport *transport);

/* Polls the connection: it waits for something that the loop does not report. */
void send_wait(struct transport *transport);

/* The queued frames wait for what the loop does not report. */
void send_become_busy(struct transport *transport);

/* Whether it is to be polled: frames wait for what the loop does not report, or fds are in flight. */
bool send_must_look(const struct transport *transport);

/* Called by polling: counts the fds in flight, and tries again. */
enum poll_rounds_look send_look(struct transport *transport);
