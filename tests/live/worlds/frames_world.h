/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with a device of 256 MiB, and hand-made connections: the test chooses every frame. Failures end
 * the test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/fdset.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/live/support/daemon.h"

extern unsigned n_fds_before; /* of the daemon, without connections */

/* Fixtures. After any test, the daemon must serve on and have nothing left of it; connections that it left
 * open are closed. */
void frames_start(void);
void frames_stop(void);

/* Connects without a frame; and with HELLO. */
int connect_raw(void);
int connect_ready(void);

/* Of another process, which lives until child_kill. Its connection is used by this one. */
int connect_from_child(uid_t uid, pid_t *ret_child);

int receive(int fd, struct frame *ret_frame, struct fdset *ret_fds);

/* Receives one frame and closes its fds. */
struct frame expect(int fd, enum message_kind kind);
void expect_error(int fd, uint32_t serial, enum gpumem_error code);
void expect_end(int fd);

/* Does both, and closes the connection. */
void expect_dropped(int fd, uint32_t serial, enum gpumem_error code);

void send_bytes(int fd, const void *bytes, size_t n_bytes);
void send_frame(int fd, struct frame *frame, enum message_kind kind, uint32_t serial);

/* Waits until all earlier frames have been handled. */
void must_serve(int fd);

/* Requests that each connection has waiting while the order is looked at. */
#define N_IN_LINE 16

/* So many blocks are cached for the tenant of the connection. */
void fill_cache(int fd, unsigned n_blocks);

/* Each connection asks N_IN_LINE times for a block while the daemon stands still. Returns how many leases the others
 * have got before the first one has its last. All are given back. */
unsigned count_served_before(int fd, const int *others, unsigned n_others);

struct frame hello_frame(void);
struct frame lease_frame(uint32_t pool, uint64_t n_bytes, uint32_t wait_ms);

uint64_t take_lease(int fd, uint64_t n_bytes);

/* The answer to a LEASE that was sent before. What the daemon says unasked is passed over. */
uint64_t await_lease(int fd);
void give_back(int fd, uint64_t lease, uint32_t flags, uint32_t serial);
