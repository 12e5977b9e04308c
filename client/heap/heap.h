/* SPDX-License-Identifier: Apache-2.0 */
/* A heap: the blocks that a client leases from one pool for one stream, and the allocations cut out of them. Pure: no
 * driver, socket, clock or environment; addresses are numbers and are never followed, since the CPU cannot touch device
 * memory, so all bookkeeping lives outside.
 *
 * Blocks that touch are one run to allocations: one may begin in a block and end in the next. What a heap lacks for a
 * request it can therefore lease as exactly the missing bytes behind a hole that it has, and blocks can be small
 * against the heap without being small against its allocations. Where memory must not be cut across blocks (the driver
 * copies from one registration at a time), runs are kept apart: HEAP_SPLIT.
 *
 * Ownership: the heap owns its bookkeeping. A block's memory and its record are the caller's, who leases and maps it
 * before heap_add_block and lets go of it after heap_remove_block.
 * Threads: none of its own; the caller holds the heap's lock for every call.
 *
 * Small allocations, where there are several of a size, have places in slabs, which are extents too: see slabs.h.
 *
 * Cost: an allocation and a free each do one look-up in a table of starts and one search of the holes, constant both;
 * or, in a slab, neither. A call that fails leaves the heap as it was. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/heap/alloc_table.h"
#include "client/heap/arena.h"
#include "client/heap/extents.h"
#include "client/heap/slabs.h"
#include "client/runtime/spinlock.h"

/* Allocations are aligned to, and their sizes rounded up to, this many bytes. */
#define HEAP_UNIT UINT64_C(512)

/* What an allocation of so many bytes takes. */
static inline uint64_t heap_round_up(uint64_t n_bytes)
{
        return (n_bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
}

/* Blocks start at, and are, multiples of this many bytes. */
#define HEAP_BLOCK_UNIT ARENA_GRANULE

/* What extents can number. */
#define HEAP_ARENA_MAX ((UINT64_C(1) << 41) - ARENA_GRANULE)

struct heap;

/* What every free looks at is in one line of a cache. */
struct heap_block {
        _Alignas(64) struct arena_block at; /* the caller sets it, and lease and word */
        _Atomic(struct heap *) heap;        /* NULL: in none */
        uint64_t epoch;         /* the latest one that anything in it was freed in; 0: none */
        uint16_t *cells;        /* see heap_slabs.h; NULL: no slab has been in it */
        uint32_t place;         /* in its heap's `blocks` */
        struct run_edges edges; /* of the run, where the block is at its end */
        _Atomic uint32_t
                n_uses; /* the caller's: of its allocations, that frees look for in stream_uses.h */
        uint64_t lease; /* 0: not leased yet */
        _Atomic uint64_t *word;  /* of the lease, on the board; NULL: it has none, or no more */
        struct heap_block *next; /* see idle_list.h */
        bool is_pledged;         /* see heap_set_pledge; under the heap's lock */
        uint64_t n_earlier;      /* how many blocks came to its heap before it */
};

/* The block at an address, or NULL, where all that stands in the arena are blocks of heaps. As arena_find. */
static inline struct heap_block *heap_block_at(const struct arena *arena, uint64_t address)
{
        struct arena_block *at = arena_find(arena, address);

        return at ? CONTAINER_OF(at, struct heap_block, at) : NULL;
}

enum heap_runs { HEAP_JOINED, HEAP_SPLIT };

struct heap {
        struct spinlock lock;
        uint64_t epoch;            /* of frees; heap_new_epoch begins the next one */
        uint64_t n_done_epochs;    /* those below it: the work that was enqueued before is over */
        uint64_t n_settled_epochs; /* those below it were over for a while; see heap_set_settle */
        uint64_t n_adds;           /* of blocks, ever */
        uint64_t n_settled_adds;   /* those blocks were here for a while */
        uint64_t base;
        const struct arena *arena;
        enum heap_runs runs;
        struct heap_block **blocks; /* by address */
        uint32_t n_blocks;
        uint32_t n_block_room;
        uint64_t n_requested_bytes;
        _Atomic uint64_t n_allocated_bytes; /* read without the lock too */
        uint64_t n_reserved_bytes;
        uint64_t n_freed_bytes; /* in this epoch */
        struct alloc_table alloc_table;
        struct extents extents;
        struct slabs slabs;
};

/* Blocks will stand in that arena. Not to be moved afterwards. */
void heap_init(struct heap *heap, const struct arena *arena, enum heap_runs runs);

/* Frees the bookkeeping. Allocations may live on: their memory is the caller's, and with a device or a client gone
 * there is nobody left to free them. Blocks are in no heap from then on. */
void heap_deinit(struct heap *heap);

/* The block, which stands in the arena and which no work uses, is free memory from now on. -ENOMEM. */
int heap_add_block(struct heap *heap, struct heap_block *block);

/* One more block, or the end of one, needs no memory. -ENOMEM. */
int heap_reserve(struct heap *heap);

/* The hole that covers all of the block; 0: something in it is allocated. */
uint32_t heap_block_extent(const struct heap *heap, const struct heap_block *block);

/* Does the hole cover all of the block? */
bool heap_covers(const struct heap *heap, const struct extent *free_extent,
                 const struct heap_block *block);

/* The first block of the heap that the hole covers, or NULL; the ones that it covers follow each other. */
struct heap_block *heap_first_covered(const struct heap *heap, const struct extent *free_extent);

/* The one above it, if the hole covers that too. */
struct heap_block *heap_next_covered(const struct heap *heap, const struct extent *free_extent,
                                     const struct heap_block *block);

/* Forgets a block that is empty. -ENOMEM. */
int heap_remove_block(struct heap *heap, struct heap_block *block);

/* Some block, allocations in it or not, is in no heap any more; NULL: there is none. Afterwards only that and
 * heap_deinit may be called. */
struct heap_block *heap_abandon_block(struct heap *heap);

/* Cuts an allocation from the smallest hole that is found to hold n_bytes rounded up to HEAP_UNIT, or has a place
 * in a slab for it.
 * GPUMEM_E_REFUSED: no hole is large enough. GPUMEM_E_TOO_LARGE: none could be.
 * GPUMEM_E_BAD_REQUEST: n_bytes is 0. -ENOMEM. */
int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address);

struct heap_freed {
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        uint64_t
                n_extent_bytes; /* of the hole that it became part of; 0: it was one of several in a slab */
};

/* GPUMEM_E_NOT_OURS: the address is not the start of a live allocation; nothing is freed. */
int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed);

/* The same when no work uses the allocation any more. What was enqueued for those that had the memory before it may
 * still do: it is as idle as it was then. */
NOINLINE int heap_free_idle(struct heap *heap, uint64_t address, struct heap_freed *ret_freed);

/* What was freed before can be told from what will be. Returns the epoch that ended. */
uint64_t heap_new_epoch(struct heap *heap);

struct heap_allocation {
        uint64_t start;
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
};

/* The live allocation that the address lies in. Constant for its start, and in a slab; for another address inside
 * linear in the extents of its run. GPUMEM_E_NOT_OURS. */
int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation);

/* No work uses what was freed in the block any more. */
static inline bool heap_is_idle(const struct heap *heap, const struct heap_block *block)
{
        return block->epoch < heap->n_done_epochs;
}

static inline uint32_t heap_unit_of(const struct heap *heap, uint64_t address)
{
        return (uint32_t)((address - heap->base) / HEAP_UNIT);
}

static inline uint64_t heap_address_of(const struct heap *heap, uint32_t unit)
{
        return heap->base + unit * HEAP_UNIT;
}

/* Derives all of it anew and asserts that it agrees. Linear in blocks and extents. */
void heap_check(const struct heap *heap);
