#include "client/heap.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"

/* Fibonacci hashing of a start, a multiple of HEAP_UNIT: a fraction of the cost of the hash for byte
 * strings that is the default. uthash takes the low bits of what it is given. */
static unsigned hash_start(const uint64_t *start)
{
        return (unsigned)(*start / HEAP_UNIT * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#define HASH_FUNCTION(key, n_key_bytes, ret_hash) ((ret_hash) = hash_start(key))
#define HASH_NONFATAL_OOM                         1
#include <uthash.h>

#define BLOCK_MAX_BYTES     (64 * MIB)
#define BLOCK_GROWTH_FACTOR 8

/* All pieces are in the table, holes too: an alloc that fits exactly and a free that merges nothing
 * need not change it, and it never becomes empty, and freed, under an application that allocates and
 * frees in turn. */
struct heap_piece {
        struct piece piece;
        struct heap_block *block;
        uint64_t n_requested_bytes; /* while it is taken */
        UT_hash_handle hh;
};

static struct heap_piece *heap_piece_of(const struct piece *piece)
{
        return CONTAINER_OF(piece, struct heap_piece, piece);
}

void heap_init(struct heap *heap)
{
        memset(heap, 0, sizeof(*heap));
        holes_init(&heap->holes, HEAP_UNIT);
        TAILQ_INIT(&heap->blocks);
}

void heap_deinit(struct heap *heap)
{
        struct heap_block *block;

        HASH_CLEAR(hh, heap->pieces);
        while ((block = TAILQ_FIRST(&heap->blocks))) {
                struct piece *piece = &block->first->piece;

                while (piece) {
                        struct piece *after = piece->after;

                        free(heap_piece_of(piece));
                        piece = after;
                }
                TAILQ_REMOVE(&heap->blocks, block, in_heap);
                free(block);
        }
        heap_init(heap);
}

/* A piece in the table under its start, not yet in a span. */
static int piece_new(struct heap *heap, struct heap_block *block, uint64_t start,
                     struct heap_piece **ret_piece)
{
        struct heap_piece *piece = calloc(1, sizeof(*piece));

        if (!piece)
                return -ENOMEM;
        piece->block = block;
        piece->piece.start = start;
        HASH_ADD(hh, heap->pieces, piece.start, sizeof(piece->piece.start), piece);
        if (!piece->hh.tbl) {
                free(piece);
                return -ENOMEM;
        }
        *ret_piece = piece;
        return 0;
}

static void piece_free(struct heap *heap, struct heap_piece *piece)
{
        HASH_DELETE(hh, heap->pieces, piece);
        free(piece);
}

static struct heap_piece *piece_find(const struct heap *heap, uint64_t start)
{
        struct heap_piece *piece;

        HASH_FIND(hh, heap->pieces, &start, sizeof(start), piece);
        return piece;
}

int heap_add_block(struct heap *heap, uint64_t start, uint64_t n_bytes, void *owner)
{
        CLEANUP(freep)
        struct heap_block *block = calloc(1, sizeof(*block));
        int r;

        assert(owner && n_bytes && (start | n_bytes) % HEAP_BLOCK_UNIT == 0);
        assert(!piece_find(heap, start));
        if (!block)
                return -ENOMEM;
        r = piece_new(heap, block, start, &block->first);
        if (r)
                return r;
        block->start = start;
        block->n_bytes = n_bytes;
        block->owner = owner;
        holes_add(&heap->holes, &block->first->piece, start, n_bytes);
        heap->n_blocks++;
        heap->n_reserved_bytes += n_bytes;
        TAILQ_INSERT_TAIL(&heap->blocks, block, in_heap);
        block = NULL;
        return 0;
}

void heap_remove_block(struct heap *heap, struct heap_block *block)
{
        assert(block->n_allocated_bytes == 0);
        holes_remove(&heap->holes, &block->first->piece);
        piece_free(heap, block->first);
        TAILQ_REMOVE(&heap->blocks, block, in_heap);
        heap->n_blocks--;
        heap->n_reserved_bytes -= block->n_bytes;
        free(block);
}

struct heap_block *heap_next_block(const struct heap *heap, const struct heap_block *block)
{
        return block ? TAILQ_NEXT(block, in_heap) : TAILQ_FIRST(&heap->blocks);
}

struct heap_block *heap_block_at(const struct heap *heap, uint64_t address)
{
        struct heap_block *block;

        TAILQ_FOREACH (block, &heap->blocks, in_heap) {
                if (address >= block->start && address - block->start < block->n_bytes)
                        return block;
        }
        return NULL;
}

int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address)
{
        uint64_t n_rounded, n_block_bytes;
        struct heap_piece *piece, *rest = NULL;
        struct piece *hole;
        int r;

        if (n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (size_round_up(n_bytes, HEAP_UNIT, &n_rounded) ||
            size_round_up(n_bytes, HEAP_BLOCK_UNIT, &n_block_bytes))
                return GPUMEM_E_TOO_LARGE;
        hole = holes_find(&heap->holes, n_rounded);
        if (!hole)
                return GPUMEM_E_REFUSED;
        piece = heap_piece_of(hole);
        if (hole->n_bytes > n_rounded) {
                r = piece_new(heap, piece->block, hole->start + n_rounded, &rest);
                if (r)
                        return r;
        }
        holes_take(&heap->holes, hole, n_rounded, rest ? &rest->piece : NULL);
        piece->n_requested_bytes = n_bytes;
        piece->block->n_allocated_bytes += n_rounded;
        heap->n_requested_bytes += n_bytes;
        heap->n_allocated_bytes += n_rounded;
        *ret_address = hole->start;
        return 0;
}

int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed)
{
        struct heap_piece *piece = piece_find(heap, address);
        struct holes_used_up used_up;
        struct heap_freed freed;

        if (!piece || piece->piece.state != PIECE_TAKEN)
                return GPUMEM_E_NOT_OURS;
        freed = (struct heap_freed){.n_requested_bytes = piece->n_requested_bytes,
                                    .n_allocated_bytes = piece->piece.n_bytes,
                                    .block = piece->block};
        used_up = holes_give(&heap->holes, &piece->piece);
        for (unsigned i = 0; i < used_up.n; i++)
                piece_free(heap, heap_piece_of(used_up.pieces[i]));
        freed.block->n_allocated_bytes -= freed.n_allocated_bytes;
        heap->n_allocated_bytes -= freed.n_allocated_bytes;
        heap->n_requested_bytes -= freed.n_requested_bytes;
        if (freed.block->n_allocated_bytes == 0)
                freed.emptied_owner = freed.block->owner;
        *ret_freed = freed;
        return 0;
}

/* The piece that the address lies in, or NULL. */
static const struct heap_piece *piece_at(const struct heap *heap, uint64_t address)
{
        const struct heap_piece *start = piece_find(heap, address);
        const struct heap_block *block;
        const struct piece *piece;

        if (start)
                return start;
        block = heap_block_at(heap, address);
        if (!block)
                return NULL;
        piece = &block->first->piece;
        while (address - piece->start >= piece->n_bytes)
                piece = piece->after;
        return heap_piece_of(piece);
}

int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation)
{
        const struct heap_piece *piece = piece_at(heap, address);

        if (!piece || piece->piece.state != PIECE_TAKEN)
                return GPUMEM_E_NOT_OURS;
        *ret_allocation = (struct heap_allocation){.start = piece->piece.start,
                                                   .n_requested_bytes = piece->n_requested_bytes,
                                                   .n_allocated_bytes = piece->piece.n_bytes,
                                                   .block = piece->block};
        return 0;
}

void heap_get_stats(const struct heap *heap, struct heap_stats *ret_stats)
{
        *ret_stats = (struct heap_stats){.n_requested_bytes = heap->n_requested_bytes,
                                         .n_allocated_bytes = heap->n_allocated_bytes,
                                         .n_reserved_bytes = heap->n_reserved_bytes,
                                         .n_blocks = heap->n_blocks,
                                         .n_holes = heap->holes.n_holes,
                                         .n_largest_hole_bytes = holes_largest(&heap->holes)};
}

int heap_block_bytes(const struct heap *heap, uint64_t n_bytes, uint64_t *ret_n_bytes)
{
        uint64_t n_rounded, n_growth;

        if (n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (size_round_up(n_bytes, HEAP_BLOCK_UNIT, &n_rounded) ||
            size_round_up(heap->n_reserved_bytes / BLOCK_GROWTH_FACTOR, HEAP_BLOCK_UNIT, &n_growth))
                return GPUMEM_E_TOO_LARGE;
        if (n_growth > BLOCK_MAX_BYTES)
                n_growth = BLOCK_MAX_BYTES;
        *ret_n_bytes = n_rounded > n_growth ? n_rounded : n_growth;
        return 0;
}

/* The pieces of a block tile it, are in the table, and add up to what it says. */
static void check_block(const struct heap *heap, const struct heap_block *block,
                        uint64_t *n_requested_bytes)
{
        const struct piece *piece = &block->first->piece;
        uint64_t end = block->start, n_allocated_bytes = 0;

        assert(block->owner && (block->start | block->n_bytes) % HEAP_BLOCK_UNIT == 0);
        for (; piece; piece = piece->after) {
                const struct heap_piece *whole = heap_piece_of(piece);

                assert(piece->start == end);
                assert(whole->block == block);
                assert(piece_find(heap, piece->start) == whole);
                end += piece->n_bytes;
                if (piece->state != PIECE_TAKEN)
                        continue;
                assert(whole->n_requested_bytes && whole->n_requested_bytes <= piece->n_bytes);
                n_allocated_bytes += piece->n_bytes;
                *n_requested_bytes += whole->n_requested_bytes;
        }
        assert(end == block->start + block->n_bytes);
        assert(n_allocated_bytes == block->n_allocated_bytes);
}

static bool overlaps_earlier(const struct heap *heap, const struct heap_block *block)
{
        const struct heap_block *earlier = heap_next_block(heap, NULL);

        for (; earlier != block; earlier = heap_next_block(heap, earlier)) {
                if (block->start < earlier->start + earlier->n_bytes &&
                    earlier->start < block->start + block->n_bytes)
                        return true;
        }
        return false;
}

void heap_check(const struct heap *heap)
{
        const struct heap_block *block = NULL;
        uint64_t n_requested_bytes = 0, n_allocated_bytes = 0, n_blocks = 0;
        struct holes_tally tally = {0};

        while ((block = heap_next_block(heap, block))) {
                assert(!overlaps_earlier(heap, block));
                check_block(heap, block, &n_requested_bytes);
                holes_tally_span(&heap->holes, &block->first->piece, &tally);
                n_allocated_bytes += block->n_allocated_bytes;
                n_blocks++;
        }
        holes_check(&heap->holes, &tally);
        assert(HASH_COUNT(heap->pieces) == tally.n_pieces);
        assert(n_blocks == heap->n_blocks);
        assert(n_requested_bytes == heap->n_requested_bytes);
        assert(n_allocated_bytes == heap->n_allocated_bytes);
        assert(tally.n_span_bytes == heap->n_reserved_bytes);
        assert(tally.n_hole_bytes == heap->n_reserved_bytes - n_allocated_bytes);
        assert(heap->n_requested_bytes <= heap->n_allocated_bytes);
        assert(heap->n_allocated_bytes <= heap->n_reserved_bytes);
}
