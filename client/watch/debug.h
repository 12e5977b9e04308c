/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_DEBUG: finds errors of the program in its use of memory.
 *
 *   fill   Allocated memory is filled with DEBUG_ALLOCATED, freed memory with DEBUG_FREED.
 *   guard  DEBUG_GUARD_BYTES bytes behind each allocation hold DEBUG_GUARD_BYTE. The free checks them, and aborts the
 *          process if one has changed.
 *   stacks A free that finds nothing writes to stderr where it was called, and where the memory was allocated and freed
 *          before, if that was lately.
 *   leaks  What lives at the client's end, or the process's, is written to stderr with the stacks of its allocations.
 *
 * Each client reads the setting, and has a table of its live allocations. A free takes its allocation out of the
 * table before it writes anything. So of two frees of one pointer only one finds it, and nothing is written to a
 * pointer that is not in the table. Memory of captures and of graph pools is in the table, but is neither filled nor
 * guarded: a graph may run at any time, even after the free. Shareable and registered
 * memory is filled at its allocation only, since other processes or devices may reach it; it is in the table for stacks
 * and leaks alone.
 *
 * A forked child does not use its parent's clients, and so not their tables. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/watch/debug_memory.h"
#include "client/watch/leaks.h"
#include "driver/cuda.h"
#include "gpumem.h"

enum debug_check { DEBUG_FILL = 1, DEBUG_GUARD = 2, DEBUG_STACKS = 4, DEBUG_LEAKS = 8 };

struct debugged;   /* a live allocation */
struct exit_entry; /* of a client, in the process's list */
struct pool;

/* The parts of the client that this module uses; they outlive the table. */
struct debug_env {
        const struct cuda *cuda; /* NULL: no driver */
        struct pool *pools;
        const _Atomic uint32_t *n_pools;
        struct streams *streams;
        struct stream_uses *uses;
};

struct debug {
        struct debug_filler filler;
        struct pool *pools;
        const _Atomic uint32_t *n_pools;
        unsigned checks; /* of enum debug_check; set before other threads get the client */
        pthread_mutex_t lock;
        struct debugged *all; /* by pointer */
        struct pasts pasts;
        struct exit_entry *at_exit; /* with leaks; NULL: none */
};

void debug_init(struct debug *debug);

/* Called before the memory is unmapped. */
void debug_deinit(struct debug *debug);

/* GPUMEM_E_BAD_DEBUG. */
int debug_read_setting(struct debug *debug);

/* Called before the first allocation. */
void debug_open(struct debug *debug, const struct debug_env *env);

static inline bool debug_is_on(const struct debug *debug)
{
        return debug->checks != 0;
}

/* How many bytes the allocation needs beyond those that the program requests. */
uint64_t debug_n_more_bytes(const struct debug *debug, const struct gpumem_request *asked);

/* The allocation has succeeded, with `n_more_bytes` beyond the request. If it cannot be filled or guarded, stderr
 * says so once. */
void debug_alloc(struct debug *debug, const struct gpumem_request *asked, uint64_t n_more_bytes,
                 void *pointer);

/* Called before a free: in `stream`, or after all work, as gpumem_free_sync. NULL: it is not in the table. The caller
 * passes the result, and that of the free, to debug_end_free. */
struct debugged *debug_begin_free(struct debug *debug, const void *pointer, enum debug_order order,
                                  void *stream);
void debug_end_free(struct debug *debug, struct debugged *take_debugged, int r);

/* A free found no allocation at `pointer`. */
void debug_tell_wrong_free(struct debug *debug, const void *pointer);

/* Sets in `info` the size that the program has requested. */
void debug_describe(struct debug *debug, struct gpumem_info *info);
