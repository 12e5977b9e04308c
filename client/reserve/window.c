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
        struct piece first; /* unless it is empty; to find it may take a walk over a run */
        uint64_t n_missing, n_others_bytes;
        unsigned n_gaps;
};

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
                  uint64_t n_more_cost)
{
        uint64_t n_cost = window->n_missing + window->n_gaps * GAP_BYTES + n_more_cost;

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

        if (stretch->start == stretch->end)
                stretch->first = *piece;
        stretch->end = piece->end;
        stretch->n_missing += piece->kind == PIECE_GAP ? n_bytes : 0;
        stretch->n_gaps += piece->kind == PIECE_GAP;
        stretch->n_others_bytes += piece->kind == PIECE_OTHERS ? n_bytes : 0;
}

static void drop_first(const struct search *search, struct stretch *stretch)
{
        const struct piece *first = &stretch->first;
        uint64_t n_bytes = first->end - first->start;

        stretch->n_missing -= first->kind == PIECE_GAP ? n_bytes : 0;
        stretch->n_gaps -= first->kind == PIECE_GAP;
        stretch->n_others_bytes -= first->kind == PIECE_OTHERS ? n_bytes : 0;
        stretch->start = first->end;
        if (stretch->start < stretch->end)
                stretch->first = piece_at(search, stretch->start);
}

static bool is_own(const struct search *search, uint64_t address)
{
        const struct heap_block *block = heap_block_at(search->heap->arena, address);

        return block && block->heap == search->heap;
}

static uint64_t cost_of_others(const struct stretch *stretch)
{
        return stretch->n_others_bytes / OTHERS_PART;
}

/* From the stretch's start. Of a gap at its upper end the window takes only what it needs; if it needs nothing, it was
 * offered without that gap. */
static void offer_up(struct search *search, const struct stretch *stretch, const struct piece *last)
{
        struct window window = {stretch->start, stretch->end, stretch->n_missing, stretch->n_gaps};
        bool is_behind = is_own(search, stretch->start - 1);

        /* Behind a run of the heap's, the run becomes longer. */
        if (stretch->first.kind == PIECE_GAP && !is_behind)
                return;
        if (last->kind == PIECE_GAP && last->start - stretch->start >= search->n_bytes)
                return;
        if (last->kind == PIECE_GAP) {
                window.end = last->start +
                             window_round_up(search->n_bytes - (last->start - stretch->start));
                if (window.end > last->end)
                        window.end = last->end;
                window.n_missing -= last->end - window.end;
        }
        offer(search, &window, stretch->start - is_behind, cost_of_others(stretch));
}

/* Of the gap at its lower end the window takes only what it needs. Of two places as good the one that has more room to
 * grow is better: the upper one. */
static void offer_down(struct search *search, const struct stretch *stretch)
{
        const struct piece *gap = &stretch->first;
        uint64_t n_more = window_round_up(search->n_bytes - (stretch->end - gap->end));

        offer(search,
              &(struct window){gap->end - n_more, stretch->end,
                               stretch->n_missing - (gap->end - gap->start - n_more),
                               stretch->n_gaps},
              gap->end, cost_of_others(stretch) + 1);
}

/* Offers the windows that end with the stretch's last piece, and leaves those that begin lower than they need. */
static void slide(struct search *search, struct stretch *stretch, const struct piece *last)
{
        while (stretch->start < stretch->end) {
                const struct piece *first = &stretch->first;
                bool is_enough = stretch->end - stretch->start >= search->n_bytes;
                bool is_needed = stretch->end - first->end < search->n_bytes;

                if (stretch->n_gaps <= WINDOW_GAPS_MAX) {
                        if (is_enough)
                                offer_up(search, stretch, last);
                        if (is_enough && is_needed && first->kind == PIECE_GAP &&
                            first->end < stretch->end)
                                offer_down(search, stretch);
                        if (!is_enough || (first->kind == PIECE_GAP && is_needed))
                                return;
                }
                drop_first(search, stretch);
        }
}

/* The window ends where a run of the heap's begins, which becomes longer. */
static void offer_below_run(struct search *search, const struct piece *gap)
{
        uint64_t n_bytes = window_round_up(search->n_bytes);

        if (gap->kind == PIECE_GAP && gap->end - gap->start >= n_bytes && is_own(search, gap->end))
                offer(search, &(struct window){gap->end - n_bytes, gap->end, n_bytes, 1}, gap->end,
                      1);
}

static void walk(struct search *search, uint64_t start)
{
        struct stretch stretch = {.start = start, .end = start};
        struct piece piece, last = {.kind = PIECE_WALL};

        while ((piece = piece_at(search, stretch.end)).kind != PIECE_END) {
                if (piece.kind == PIECE_WALL) {
                        offer_below_run(search, &last);
                        stretch = (struct stretch){.start = piece.end, .end = piece.end};
                } else {
                        add(&stretch, &piece);
                        slide(search, &stretch, &piece);
                }
                last = piece;
        }
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
