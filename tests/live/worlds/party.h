/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-made clients with boards: the test chooses what they mark, request and report. The daemon is that of
 * frames_world.h. Failures end the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fdset.h"
#include "proto/frame_socket.h"

struct party {
        int fd;
        void *board;
        size_t n_board_bytes;
        uint32_t n_slots;
        _Atomic uint64_t *words;
        uint32_t pinned; /* a pool of pinned memory; 0 is the device's pool */
        uint32_t serial;
};

struct party party_join(void);
/* The same as another user: needs root. */
struct party party_join_as(uid_t uid);
void party_leave(struct party *party);

/* Returns its serial. */
uint32_t party_say(struct party *party, struct frame *frame, enum message_kind kind);

/* The next frame; the caller owns its fds. */
void party_expect(const struct party *party, enum message_kind kind, struct frame *ret_frame,
                  struct fdset *ret_fds);

/* Receives LEASED; its fd is ret_fd, or closed. */
struct message_leased party_take(const struct party *party, int *ret_fd);

/* Sends the request and receives its reply. */
struct message_leased party_lease(struct party *party, uint32_t pool, uint64_t n_bytes);

void party_give_back(struct party *party, uint64_t lease);
void party_unmapped(struct party *party, uint64_t lease);

void party_mark_idle(const struct party *party, const struct message_leased *leased);
bool party_was_revoked(const struct party *party, const struct message_leased *leased);
