/* SPDX-License-Identifier: Apache-2.0 */
/* Timeouts of blocks that were released while clients map them. A client that is told to unmap one does so
 * within milliseconds, and meanwhile waiting requests count on it. A stopped process may never answer:
 * after a second the unmap times out, and requests take another block if they can. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

#define UNMAP_TIMEOUT_NS UINT64_C(1000000000)

/* The block was released just now, and is mapped. The next function: no client maps it any more. */
void unmap_timeout_expect(struct block *block);
void unmap_timeout_forget(struct block *block);

/* Call it after every change of its conditions. A client is unresponsive if it was told to unmap a block,
 * still maps it, and the unmap has timed out. A client whose lease was not revoked is not told, and a
 * client that has left cannot answer: these are not unresponsive. */
void unmap_timeout_update_holder(struct block *block);

/* When the next unmap times out; UINT64_MAX: none will. */
uint64_t unmap_timeout_next(const struct pool *pool);

/* Notes that it has. */
void unmap_timeout_note_next(struct pool *pool);
