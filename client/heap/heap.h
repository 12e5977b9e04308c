/* SPDX-License-Identifier: Apache-2.0 */
/* A heap: the blocks that a client leases from one pool for one stream, and the allocations cut out of them. Pure: no
 * driver, socket, clock or environment. Addresses are numbers and are never followed, since the CPU cannot touch
 * device memory; so all bookkeeping lives outside the blocks.
 *
 * Adjacent blocks are one run for allocations: one may begin in a block and end in the next. So a heap that lacks
 * room for a request can lease exactly the missing bytes behind one of its holes. Blocks can be small compared with
 * the heap without being small compared with its allocations. Where memory must not be cut across blocks (the driver
 * copies from one registration at a time), runs are kept apart: HEAP_SPLIT.
 *
 * Ownership: the heap owns its bookkeeping. The caller owns a block's memory and its record. It must lease and map
 * the block before heap_add_block, and may release it after heap_remove_block. Threads: none of its own; the caller
 * holds the heap's lock for every call.
 *
 * Small allocations, if there are several of a size, get places in slabs, which are extents, too: see slabs.h.
 *
 * Cost: an allocation and a free each do one look-up in the allocation table and one search of the holes, both
 * constant; or neither, in a slab. A call that fails leaves the heap unchanged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/heap/alloc_table.h"
#include "client/heap/arena.h"
#include "client/heap/extents.h"
#include "client/heap/slabs.h"
#include "client/runtime/spinlock.h"

/* The alignment of allocations; their sizes are rounded up to it. */
#define HEAP_UNIT UINT64_C(512)

/* How many bytes an allocation of n_bytes takes. */
static inline uint64_t heap_round_up(uint64_t n_bytes)
{
        return (n_bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
}

/* Blocks start at, and are, multiples of this many bytes. */
#define HEAP_BLOCK_UNIT ARENA_GRANULE

/* The largest arena whose units extents can number. */
#define HEAP_ARENA_MAX ((UINT64_C(1) << 41) - ARENA_GRANULE)

struct heap;

/* The fields that every free reads share one cache line. */
struct heap_block {
        _Alignas(64) struct arena_block at; /* the caller sets it, and `lease` and `word` */
        _Atomic(struct heap *) heap;        /* NULL: the block is in no heap */
        uint64_t epoch;                     /* of the latest free in it; 0: none */
        uint16_t *cells;                    /* see heap_slabs.h; NULL: no slab has been in it */
        uint32_t place;                     /* index into its heap's `blocks` */
        struct run_edges edges;             /* of the run, if the block is its first or last */
        _Atomic uint32_t
                n_uses; /* kept by the caller: allocations in it that stream_uses.h or deferred_frees.h has */
        uint64_t lease;          /* 0: not leased yet */
        _Atomic uint64_t *word;  /* the lease's word on the board; NULL: none, or no more */
        struct heap_block *next; /* see idle_list.h */
        bool is_pledged;         /* see heap_set_pledge; under the heap's lock */
        uint64_t idle_at_us;     /* when it came to the idle list; see heap_set_take_older */
        uint64_t n_earlier;      /* how many blocks were added to its heap before it */
        uint64_t n_look;         /* see heap_set_plan; under the pool's lock */
        uint64_t context_id;     /* only this context can use it; 0: any can. The caller sets it */
};

/* The block at an address, or NULL, in an arena where only blocks of heaps stand. As arena_find. */
static inline struct heap_block *heap_block_at(const struct arena *arena, uint64_t address)
{
        struct arena_block *at = arena_find(arena, address);

        return at ? CONTAINER_OF(at, struct heap_block, at) : NULL;
}

enum heap_runs { HEAP_JOINED, HEAP_SPLIT };

/* What a large allocation and its free use is in the first two lines, with the first fields of `extents`, and in the
 * lines of the classes that they meet. */
struct heap {
        struct spinlock lock;
        uint64_t epoch; /* of frees; heap_new_epoch begins the next one */
        uint64_t base;
        uint64_t n_requested_bytes;
        _Atomic uint64_t n_allocated_bytes; /* read without the lock too */
        uint64_t n_freed_bytes;             /* in this epoch */
        struct alloc_table alloc_table;
        struct extents extents;
        struct slabs slabs;
        uint64_t n_done_epochs;    /* the work of epochs below it is over */
        uint64_t n_settled_epochs; /* those below it were over for a while; see heap_set_settle */
        uint64_t n_adds;           /* blocks that were ever added */
        uint64_t n_settled_adds;   /* the first so many have been here for a while */
        const struct arena *arena;
        enum heap_runs runs;
        struct heap_block **blocks; /* by address */
        uint32_t n_blocks;
        uint32_t n_block_room;
        uint64_t n_reserved_bytes;
        uint64_t context_id; /* as its blocks'; the caller sets it after heap_init */
};

/* Its blocks will stand in that arena. The heap must not be moved afterwards. */
void heap_init(struct heap *heap, const struct arena *arena, enum heap_runs runs);

/* Frees the bookkeeping. Allocations may be left: the caller owns their memory, and when a device or a client is
 * gone, no code is left that could free them. Afterwards the blocks are in no heap. */
void heap_deinit(struct heap *heap);

/* Adds a block as free memory. It stands in the arena, and no work uses it. -ENOMEM. */
int heap_add_block(struct heap *heap, struct heap_block *block);

/* Makes room, so that one more heap_add_block or heap_remove_block needs no memory. -ENOMEM. */
int heap_reserve(struct heap *heap);

/* The hole that covers all of the block; 0: something in it is allocated. */
uint32_t heap_block_extent(const struct heap *heap, const struct heap_block *block);

/* Does the hole cover all of the block? */
bool heap_covers(const struct heap *heap, const struct extent *free_extent,
                 const struct heap_block *block);

/* The first block of the heap that the hole covers, or NULL; the covered blocks follow each other. */
struct heap_block *heap_first_covered(const struct heap *heap, const struct extent *free_extent);

/* The block above it, if the hole covers that too; or NULL. */
struct heap_block *heap_next_covered(const struct heap *heap, const struct extent *free_extent,
                                     const struct heap_block *block);

/* Removes an empty block. -ENOMEM. */
int heap_remove_block(struct heap *heap, struct heap_block *block);

/* Takes some block out of the heap, whether or not it has allocations; NULL: there is none. Afterwards only this
 * function and heap_deinit may be called. */
struct heap_block *heap_abandon_block(struct heap *heap);

/* Makes an allocation of n_bytes, rounded up to HEAP_UNIT: from a hole that extents.h chooses, or as a place in a
 * slab. GPUMEM_E_REFUSED: no hole is large enough. GPUMEM_E_TOO_LARGE: none could be. GPUMEM_E_BAD_REQUEST: n_bytes
 * is 0. -ENOMEM. */
int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address);

/* For a caller that knows the heap some time before it takes the lock: fetches the lines that an allocation of n_bytes,
 * or a free, is going to use, all at once. It reads no field, so it needs no lock. */
void heap_prefetch_alloc(const struct heap *heap, uint64_t n_bytes);

static ALWAYS_INLINE void heap_prefetch(const struct heap *heap)
{
        __builtin_prefetch(&heap->lock, 1);
        __builtin_prefetch(&heap->extents, 1);
}

struct heap_freed {
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        uint64_t n_extent_bytes; /* of the hole that it is part of now; 0: its slab lives on */
};

/* GPUMEM_E_NOT_OURS: the address is not the start of a live allocation; nothing is freed. */
int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed);

/* The same, where the caller has looked the block up, maybe before it had the lock. NULL: there was none. */
int heap_free_in(struct heap *heap, struct heap_block *block, uint64_t address,
                 struct heap_freed *ret_freed);

/* As heap_free, if no work uses the allocation any more. Work of earlier owners of the memory may still be pending: the
 * memory is as idle as it was when it was allocated. */
NOINLINE int heap_free_idle(struct heap *heap, uint64_t address, struct heap_freed *ret_freed);

/* Begins the next epoch, so that earlier frees can be told from later ones. Returns the epoch that ended. */
uint64_t heap_new_epoch(struct heap *heap);

struct heap_allocation {
        uint64_t start;
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
};

/* The live allocation that the address lies in. Constant for its start, and in a slab; else linear in the extents of
 * its run. GPUMEM_E_NOT_OURS. */
int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation);

/* Is all work over that may use freed memory of the block? */
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

/* Computes all bookkeeping again from scratch and asserts that it agrees. Linear in blocks and extents. */
void heap_check(const struct heap *heap);
