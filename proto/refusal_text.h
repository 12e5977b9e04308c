/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a refused LEASE, made from its facts: why it failed, who holds the memory, and what can be done. The
 * daemon makes it for its log, for lists of events, and for clients that do not know REFUSED_FACTS; the library makes
 * it when a program asks. The facts may be hostile: what proto_decode passes is enough. Pure. */
#pragma once

#include "proto/messages.h"

#define REFUSAL_TEXT_BYTES 400
static_assert(sizeof(((struct message_refused *)0)->text) == REFUSAL_TEXT_BYTES,
              "REFUSED has room for the whole text");

/* Text beyond the buffer's size is cut. */
void refusal_text(const struct message_refused_facts *facts,
                  char ret_text[static REFUSAL_TEXT_BYTES]);

/* The code of a frame that refuses a request: ERROR, REFUSED or REFUSED_FACTS. 0: it is another one. */
int refusal_code(const struct frame *frame);

/* The text of such a frame; "" for another one. */
void refusal_frame_text(const struct frame *frame, char ret_text[static REFUSAL_TEXT_BYTES]);
