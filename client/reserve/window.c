/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/window.h"

#include <stddef.h>

#include "base/err.h"

/* Each gap counts as half a granule, since it costs a lease; what is taken from others as a part of its size, since
 * they may need it again. */
#define GAP_BYTES   (HEAP_BLOCK_UNIT / 2)
#define OTHERS_PART 64

/* What stands at an address. A wall is what a window cannot reach over. */
enum piece_kind { PIECE_END, PIECE_WALL, PIECE_GAP, PIECE_OWN, PIECE_OTHERS };

struct piece {
        enum piece_kind kind;
        uint64_t start, end;
};

/* What a walk over the addresses looks for, and the window that it has found. */
struct search {
        const struct heap *heap;
        uint64_t n_look;
        const struct arena_range *part;
        uint64_t n_bytes;
        struct window best;
        uint64_t n_cost; /* of `best`; UINT64_MAX: none yet */
};

/* The pieces between two addresses, of which none is a wall. */
struct stretch {
        uint64_t start, end;
        uint64_t n_missing, n_others_bytes;
        unsigned n_gaps;
};

static uint64_t round_up(uint64_t n_bytes)
{
        return (n_bytes + HEAP_BLOCK_UNIT - 1) & ~(HEAP_BLOCK_UNIT - 1);
}

static uint64_t end_of(const struct heap_block *block)
{
        return block->at.start + block->at.n_bytes;
}

static uint64_t free_bytes(const struct heap *heap, uint32_t index)
{
        const struct extent *extent = extents_at(&heap->extents, index);

        return extent->state == EXTENT_FREE ? extent->n_units * HEAP_UNIT : 0;
}

/* The block with which the run of the heap's ends. */
static const struct heap_block *last_of_run(const struct heap *heap, const struct heap_block *block)
{
        uint32_t place = block->place;

        while (!heap->blocks[place]->edges.after)
                place++;
        return heap->blocks[place];
}

/* Holes within a run are too small for the request, or it would have been served: what counts are the holes at its
 * ends. */
static struct piece own_piece(const struct heap *heap, const struct heap_block *block,
                              uint64_t address)
{
        const struct heap_block *last = last_of_run(heap, block);
        uint32_t above = extents_at(&heap->extents, last->edges.after)->before;
        uint64_t last_hole = end_of(last) - free_bytes(heap, above);
        uint64_t n_first = 0;

        if (address >= last_hole)
                return (struct piece){PIECE_OWN, address, end_of(last)};
        if (block->edges.before && block->at.start == address)
                n_first = free_bytes(heap, extents_at(&heap->extents, block->edges.before)->after);
        return n_first ? (struct piece){PIECE_OWN, address, address + n_first}
                       : (struct piece){PIECE_WALL, address, last_hole};
}

/* Beyond the end of a range, up to the next one. */
static struct piece past_range(const struct arena *arena, uint64_t address)
{
        const struct arena_block *next = arena_next(arena, address);

        if (!next)
                return (struct piece){PIECE_END, address, address};
        return (struct piece){PIECE_WALL, address,
                              next->start - arena_room_below(arena, next->start)};
}

static struct piece piece_at(const struct search *search, uint64_t address)
{
        const struct arena *arena = search->heap->arena;
        const struct heap_block *block = heap_block_at(arena, address);
        uint64_t n_room;

        if (block && block->heap == search->heap)
                return own_piece(search->heap, block, address);
        if (block) {
                bool may_take = search->n_look && block->n_look == search->n_look;

                return (struct piece){may_take ? PIECE_OTHERS : PIECE_WALL, address, end_of(block)};
        }
        n_room = arena_room_above(arena, address);
        return n_room ? (struct piece){PIECE_GAP, address, address + n_room}
                      : past_range(arena, address);
}

/* Fewer missing bytes are better. `memory` is an address in the first block that the window has or touches. */
static void offer(struct search *search, const struct window *window, uint64_t memory,
                  uint64_t n_others_bytes)
{
        uint64_t n_cost = window->n_missing + window->n_gaps * GAP_BYTES +
                          n_others_bytes / OTHERS_PART;

        if (window->n_missing && (memory < search->part->start || memory >= search->part->end))
                return;
        if (n_cost < search->n_cost) {
                search->best = *window;
                search->n_cost = n_cost;
        }
}

static void add(struct stretch *stretch, const struct piece *piece)
{
        uint64_t n_bytes = piece->end - piece->start;

        stretch->end = piece->end;
        stretch->n_missing += piece->kind == PIECE_GAP ? n_bytes : 0;
        stretch->n_gaps += piece->kind == PIECE_GAP;
        stretch->n_others_bytes += piece->kind == PIECE_OTHERS ? n_bytes : 0;
}

static void drop(struct stretch *stretch, const struct piece *piece)
{
        uint64_t n_bytes = piece->end - piece->start;

        stretch->start = piece->end;
        stretch->n_missing -= piece->kind == PIECE_GAP ? n_bytes : 0;
        stretch->n_gaps -= piece->kind == PIECE_GAP;
        stretch->n_others_bytes -= piece->kind == PIECE_OTHERS ? n_bytes : 0;
}

static bool is_own(const struct search *search, uint64_t address)
{
        const struct heap_block *block = heap_block_at(search->heap->arena, address);

        return block && block->heap == search->heap;
}

/* Of a gap at its upper end the window takes only what it needs. */
static void offer_stretch(struct search *search, const struct stretch *stretch,
                          const struct piece *last)
{
        struct window window = {stretch->start, stretch->end, stretch->n_missing, stretch->n_gaps};

        if (last->kind == PIECE_GAP) {
                window.end = last->start +
                             round_up(search->n_bytes - (last->start - stretch->start));
                if (window.end > last->end)
                        window.end = last->end;
                window.n_missing -= last->end - window.end;
        }
        offer(search, &window,
              is_own(search, stretch->start - 1) ? stretch->start - 1 : stretch->start,
              stretch->n_others_bytes);
}

/* A window begins with memory, or with the gap behind a run of the heap's, which becomes longer. */
static bool may_begin(const struct search *search, const struct piece *first)
{
        return first->kind != PIECE_GAP || is_own(search, first->start - 1);
}

/* Offers the windows that end with the stretch's last piece, and leaves those that begin higher up. */
static void slide(struct search *search, struct stretch *stretch, const struct piece *last)
{
        while (stretch->start < stretch->end) {
                struct piece first = piece_at(search, stretch->start);
                bool begins = stretch->n_gaps <= WINDOW_GAPS_MAX && may_begin(search, &first);

                if (begins && stretch->end - stretch->start < search->n_bytes)
                        return;
                if (begins)
                        offer_stretch(search, stretch, last);
                drop(stretch, &first);
        }
}

/* Memory without gaps that ends here, and is too little, can be extended into the gap below it; so can a run of the
 * heap's that begins here. */
static void offer_below(struct search *search, const struct stretch *solid, uint64_t n_gap_bytes)
{
        uint64_t n_have = solid->end - solid->start, n_more;

        if (n_have >= search->n_bytes || (!n_have && !is_own(search, solid->end)))
                return;
        n_more = round_up(search->n_bytes - n_have);
        if (n_more <= n_gap_bytes)
                offer(search, &(struct window){solid->start - n_more, solid->end, n_more, 1},
                      solid->start, solid->n_others_bytes);
}

static bool is_memory(const struct piece *piece)
{
        return piece->kind == PIECE_OWN || piece->kind == PIECE_OTHERS;
}

/* Memory that ends where the piece begins is offered last: of two places as good, the upper one has more room to grow. */
static void walk(struct search *search, uint64_t start)
{
        struct stretch stretch = {.start = start, .end = start}, solid = stretch;
        uint64_t n_gap_bytes = 0; /* below `solid` */
        struct piece piece;

        while ((piece = piece_at(search, stretch.end)).kind != PIECE_END) {
                if (piece.kind == PIECE_WALL)
                        stretch = (struct stretch){.start = piece.end, .end = piece.end};
                else {
                        add(&stretch, &piece);
                        slide(search, &stretch, &piece);
                }
                if (is_memory(&piece)) {
                        add(&solid, &piece);
                        continue;
                }
                offer_below(search, &solid, n_gap_bytes);
                n_gap_bytes = piece.kind == PIECE_GAP ? piece.end - piece.start : 0;
                solid = (struct stretch){.start = piece.end, .end = piece.end};
        }
        offer_below(search, &solid, n_gap_bytes);
}

bool window_find(const struct heap *heap, uint64_t n_look, const struct arena_range *part,
                 uint64_t n_bytes, struct window *ret_window)
{
        struct search search = {.heap = heap,
                                .n_look = n_look,
                                .part = part,
                                .n_bytes = n_bytes,
                                .n_cost = UINT64_MAX};
        const struct arena_block *first = arena_next(heap->arena, 0);

        if (!first)
                return false;
        walk(&search, first->start - arena_room_below(heap->arena, first->start));
        if (search.n_cost == UINT64_MAX)
                return false;
        *ret_window = search.best;
        return true;
}
