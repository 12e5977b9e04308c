/* Blocks that were released while clients map them. Who is told to unmap one does so within milliseconds, and
 * until then those who wait count on it. A process that is stopped does not answer, and perhaps never will:
 * after a second the block is overdue, and what waits for its bytes has them from somebody else if it can. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

#define OVERDUE_NS UINT64_C(1000000000)

/* It was released just now, and is mapped; nobody maps it any more. */
void overdue_expect(struct block *block);
void overdue_forget(struct block *block);

/* To be called whenever what this goes by has changed: a client that was told to unmap an overdue block, and
 * has it still, is late with it. One whose lease was not revoked is not told, and one that has left cannot
 * answer: those are not. */
void overdue_blame(struct block *block);

/* Notes what is overdue by now. */
void overdue_note(struct pool *pool, uint64_t now_ns);

/* When there is something to note next; UINT64_MAX: never. */
uint64_t overdue_next(const struct pool *pool);
