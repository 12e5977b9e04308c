/* A heap: the blocks that a client leases from one pool for one stream, and the allocations cut out
 * of them, best fit. Pure: no driver, socket, clock or environment; addresses are numbers and are
 * never followed, since the CPU cannot touch device memory, so all bookkeeping lives outside.
 *
 * How large a block to lease for a miss (heap_block_bytes): the request rounded up to 2 MiB, since a
 * block is a multiple of that; but at least 1/8 of what the heap already reserves, so that a heap
 * that grows to n bytes does so with O(log n) leases, and overshoots by no more than 1/8; but by
 * choice never above 64 MiB, since a block goes back only when all of it is empty, and large ones
 * seldom are. A request above 64 MiB gets a block of its own size.
 *
 * Ownership: the heap owns its bookkeeping. The memory of a block is the caller's, who leases and
 * maps it before heap_add_block and lets go of it after heap_remove_block; `owner` is the caller's
 * own record of it.
 * Threads: none of its own; the caller locks a heap for every call.
 *
 * Cost: an allocation and a free each do one look-up in a hash table and one search of the holes
 * (client/holes.h has its cost). A call that fails leaves the heap as it was. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "client/holes.h"

/* Allocations are aligned to, and their sizes rounded up to, this many bytes. */
#define HEAP_UNIT UINT64_C(512)

/* Blocks start at, and are, multiples of this many bytes. */
#define HEAP_BLOCK_UNIT (2 * MIB)

struct heap_piece;

/* Read-only for callers. */
struct heap_block {
        uint64_t start;
        uint64_t n_bytes;
        void *owner;
        uint64_t n_allocated_bytes; /* 0: the block is empty */
        struct heap_piece *first;
        TAILQ_ENTRY(heap_block) in_heap;
};

struct heap {
        struct holes holes;
        struct heap_piece *pieces; /* hash table: by start */
        TAILQ_HEAD(, heap_block) blocks;
        uint64_t n_blocks;
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        uint64_t n_reserved_bytes;
};

/* Not to be moved afterwards. */
void heap_init(struct heap *heap);

/* Frees the bookkeeping. Allocations may live on: their memory is the caller's, and with a device or
 * a client gone there is nobody left to free them. Take the owners from heap_next_block before. */
void heap_deinit(struct heap *heap);

/* The block's memory, not yet in this heap, is free from now on. -ENOMEM. `owner` is not NULL. */
int heap_add_block(struct heap *heap, uint64_t start, uint64_t n_bytes, void *owner);

/* Forgets a block that is empty. */
void heap_remove_block(struct heap *heap, struct heap_block *block);

/* In the order in which they were added: the first one for NULL; NULL after the last one. A block may
 * be removed once the one after it has been asked for. */
struct heap_block *heap_next_block(const struct heap *heap, const struct heap_block *block);

/* The block that the address is in, or NULL. Linear in the number of blocks. */
struct heap_block *heap_block_at(const struct heap *heap, uint64_t address);

/* Cuts an allocation from the smallest hole that holds n_bytes rounded up to HEAP_UNIT; the lowest
 * address among equals.
 * GPUMEM_E_REFUSED: no hole is large enough; add a block of heap_block_bytes and try again.
 * GPUMEM_E_TOO_LARGE: no block could be. GPUMEM_E_BAD_REQUEST: n_bytes is 0. -ENOMEM. */
int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address);

struct heap_freed {
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        struct heap_block *block;
        void *emptied_owner; /* of the block if this free emptied it, else NULL */
};

/* GPUMEM_E_NOT_OURS: the address is not the start of a live allocation; nothing is freed. */
int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed);

struct heap_allocation {
        uint64_t start;
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        struct heap_block *block;
};

/* The live allocation that the address lies in. Constant for its start; for an address inside linear
 * in the number of blocks and the pieces of one. GPUMEM_E_NOT_OURS. */
int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation);

/* n_requested_bytes <= n_allocated_bytes <= n_reserved_bytes. */
struct heap_stats {
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes;
        uint64_t n_reserved_bytes;
        uint64_t n_blocks;
        uint64_t n_holes;
        uint64_t n_largest_hole_bytes;
};

void heap_get_stats(const struct heap *heap, struct heap_stats *ret_stats);

/* The size of the block to lease for a request that no hole held. GPUMEM_E_TOO_LARGE. */
int heap_block_bytes(const struct heap *heap, uint64_t n_bytes, uint64_t *ret_n_bytes);

/* Derives all of it anew and asserts that it agrees. Quadratic in blocks, linear in pieces. */
void heap_check(const struct heap *heap);
