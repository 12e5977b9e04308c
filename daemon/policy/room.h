/* Making room: which cached blocks are let go when a request finds none that serves it.
 *
 * The asking tenant's own blocks go first, then those of others; in each, the one that was cached
 * first. Blocks that nobody maps are preferred, since only these come back by being let go. */
#pragma once

#include <stdint.h>

struct holding;
struct pool;

/* Lets go of blocks until `n_bytes` are on their way back, or none is left: of those that nobody
 * maps, or of those that somebody does. Returns what is on its way. */
enum room_kind { ROOM_UNMAPPED, ROOM_MAPPED };
uint64_t room_evict(struct holding *asker, uint64_t n_bytes, enum room_kind kind);

/* For a request that waits for others, and that everything unmapped does not serve. If the mapped
 * blocks would, enough of them are let go: they linger on their mappers' charge until unmapped. */
void room_call_in(struct holding *asker, uint64_t n_missing_bytes);

/* The pool's limit was lowered: lets go of what is cached beyond it. */
void room_trim(struct pool *pool);
