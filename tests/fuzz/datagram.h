/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams out of an input: most of them frames but for what the input has changed, so that checks behind the first
 * one are met too. */
#pragma once

#include "proto/messages.h"
#include "tests/fuzz/fuzz.h"

#define DATAGRAM_BYTES_MAX (sizeof(struct frame) + 32)

struct datagram {
        unsigned n_fds;
        size_t n_bytes;
        uint8_t bytes[DATAGRAM_BYTES_MAX];
};

/* The first frame of its bytes; for a datagram of no less. */
struct frame *datagram_frame(struct datagram *datagram);

void datagram_read(struct input *input, enum proto_sender sender, struct datagram *ret_datagram);

/* A frame of that kind with right numbers in its header. Its fields are the input's, made to be what they may be. */
void datagram_fill(struct input *input, enum message_kind kind, struct datagram *ret_datagram);
