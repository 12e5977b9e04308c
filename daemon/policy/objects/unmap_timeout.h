/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that were released while clients map them. Who is told to unmap one does so within milliseconds, and
 * until then those who wait count on it. A process that is stopped does not answer, and perhaps never will:
 * after a second the unmap times out, and what waits for its bytes has them from another block if it can. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

#define UNMAP_TIMEOUT_NS UINT64_C(1000000000)

/* It was released just now, and is mapped; nobody maps it any more. */
void unmap_timeout_expect(struct block *block);
void unmap_timeout_forget(struct block *block);

/* To be called whenever what this goes by has changed: a client that was told to unmap a block that timed out, and
 * maps it still, is unresponsive. One whose lease was not revoked is not told, and one that has left cannot
 * answer: those are not. */
void unmap_timeout_update_holder(struct block *block);

/* Notes whose unmap has timed out by now. */
void unmap_timeout_note(struct pool *pool, uint64_t now_ns);

/* When there is something to note next; UINT64_MAX: never. */
uint64_t unmap_timeout_next(const struct pool *pool);
