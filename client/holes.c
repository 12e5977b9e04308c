#include "client/holes.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <string.h>

static unsigned class_of(const struct holes *holes, uint64_t n_bytes)
{
        return size_class(n_bytes >> holes->unit_shift);
}

static bool is_whole_units(const struct holes *holes, uint64_t n_bytes)
{
        return !(n_bytes & ((UINT64_C(1) << holes->unit_shift) - 1));
}

/* The order within a class: best fit is then the first one that fits. */
static bool stands_before(const struct piece *a, const struct piece *b)
{
        return a->n_bytes != b->n_bytes ? a->n_bytes < b->n_bytes : a->start < b->start;
}

static void index_insert(struct holes *holes, struct piece *piece)
{
        unsigned index = class_of(holes, piece->n_bytes);
        struct piece_list *list = &holes->by_class[index];
        struct piece *next = LIST_FIRST(list), *last = NULL;

        while (next && stands_before(next, piece)) {
                last = next;
                next = LIST_NEXT(next, in_class);
        }
        if (last)
                LIST_INSERT_AFTER(last, piece, in_class);
        else
                LIST_INSERT_HEAD(list, piece, in_class);
        bitmap_set(&holes->classes, index);
        piece->state = PIECE_HOLE;
        holes->n_holes++;
        holes->n_bytes += piece->n_bytes;
}

static void index_remove(struct holes *holes, struct piece *piece)
{
        unsigned index = class_of(holes, piece->n_bytes);

        assert(piece->state == PIECE_HOLE);
        LIST_REMOVE(piece, in_class);
        if (LIST_EMPTY(&holes->by_class[index]))
                bitmap_clear(&holes->classes, index);
        piece->state = PIECE_TAKEN;
        holes->n_holes--;
        holes->n_bytes -= piece->n_bytes;
}

void holes_init(struct holes *holes, uint64_t unit)
{
        assert(unit && !(unit & (unit - 1)));
        memset(holes, 0, sizeof(*holes));
        holes->unit_shift = (unsigned)__builtin_ctzll(unit);
}

void holes_add(struct holes *holes, struct piece *piece, uint64_t start, uint64_t n_bytes)
{
        assert(n_bytes && is_whole_units(holes, start | n_bytes));
        assert(start <= UINT64_MAX - n_bytes);
        piece->start = start;
        piece->n_bytes = n_bytes;
        piece->before = NULL;
        piece->after = NULL;
        index_insert(holes, piece);
}

void holes_remove(struct holes *holes, struct piece *hole)
{
        assert(!hole->before && !hole->after);
        index_remove(holes, hole);
}

struct piece *holes_find(const struct holes *holes, uint64_t n_bytes)
{
        unsigned index = class_of(holes, n_bytes);
        struct piece *hole;
        int next;

        assert(n_bytes && is_whole_units(holes, n_bytes));
        LIST_FOREACH (hole, &holes->by_class[index], in_class) {
                if (hole->n_bytes >= n_bytes)
                        return hole;
        }
        /* Everything in a higher class fits. */
        next = bitmap_next(&holes->classes, index + 1);
        return next < 0 ? NULL : LIST_FIRST(&holes->by_class[next]);
}

uint64_t holes_largest(const struct holes *holes)
{
        int index = bitmap_last(&holes->classes);
        const struct piece *hole;
        uint64_t largest = 0;

        if (index < 0)
                return 0;
        LIST_FOREACH (hole, &holes->by_class[index], in_class)
                largest = hole->n_bytes;
        return largest;
}

void holes_take(struct holes *holes, struct piece *hole, uint64_t n_bytes, struct piece *rest)
{
        assert(n_bytes && is_whole_units(holes, n_bytes) && n_bytes <= hole->n_bytes);
        index_remove(holes, hole);
        if (n_bytes == hole->n_bytes)
                return;
        rest->start = hole->start + n_bytes;
        rest->n_bytes = hole->n_bytes - n_bytes;
        rest->before = hole;
        rest->after = hole->after;
        if (rest->after)
                rest->after->before = rest;
        hole->after = rest;
        hole->n_bytes = n_bytes;
        index_insert(holes, rest);
}

/* Joins a piece and the one after it, neither of them in the index. */
static struct piece *absorb_after(struct piece *piece)
{
        struct piece *after = piece->after;

        piece->n_bytes += after->n_bytes;
        piece->after = after->after;
        if (piece->after)
                piece->after->before = piece;
        return after;
}

struct holes_used_up holes_give(struct holes *holes, struct piece *piece)
{
        struct holes_used_up used_up = {0};
        struct piece *before = piece->before, *after = piece->after;

        assert(piece->state == PIECE_TAKEN);
        if (after && after->state == PIECE_HOLE) {
                index_remove(holes, after);
                used_up.pieces[used_up.n++] = absorb_after(piece);
        }
        if (before && before->state == PIECE_HOLE) {
                index_remove(holes, before);
                used_up.pieces[used_up.n++] = absorb_after(before);
                piece = before;
        }
        index_insert(holes, piece);
        return used_up;
}

void holes_tally_span(const struct holes *holes, const struct piece *first,
                      struct holes_tally *tally)
{
        assert(!first->before);
        for (const struct piece *piece = first; piece; piece = piece->after) {
                const struct piece *after = piece->after;

                assert(piece->n_bytes && is_whole_units(holes, piece->start | piece->n_bytes));
                assert(piece->state == PIECE_TAKEN || piece->state == PIECE_HOLE);
                if (after) {
                        assert(after->before == piece);
                        assert(after->start == piece->start + piece->n_bytes);
                        /* Best fit would cut what it could have joined. */
                        assert(piece->state == PIECE_TAKEN || after->state == PIECE_TAKEN);
                }
                tally->n_pieces++;
                tally->n_span_bytes += piece->n_bytes;
                if (piece->state != PIECE_HOLE)
                        continue;
                assert(*piece->in_class.le_prev == piece);
                tally->n_holes++;
                tally->n_hole_bytes += piece->n_bytes;
                tally->sum_of_starts += piece->start;
        }
}

void holes_check(const struct holes *holes, const struct holes_tally *tally)
{
        struct holes_tally indexed = {0};

        for (unsigned index = 0; index < SIZE_N_CLASSES; index++) {
                const struct piece_list *list = &holes->by_class[index];
                const struct piece *hole;

                assert(bitmap_test(&holes->classes, index) == !LIST_EMPTY(list));
                LIST_FOREACH (hole, list, in_class) {
                        assert(hole->state == PIECE_HOLE);
                        assert(class_of(holes, hole->n_bytes) == index);
                        /* In strict order, so no hole is here twice. */
                        assert(!LIST_NEXT(hole, in_class) ||
                               stands_before(hole, LIST_NEXT(hole, in_class)));
                        indexed.n_holes++;
                        indexed.n_hole_bytes += hole->n_bytes;
                        indexed.sum_of_starts += hole->start;
                }
        }
        assert(bitmap_is_sound(&holes->classes));
        assert(indexed.n_holes == holes->n_holes && indexed.n_holes == tally->n_holes);
        assert(indexed.n_hole_bytes == holes->n_bytes &&
               indexed.n_hole_bytes == tally->n_hole_bytes);
        assert(indexed.sum_of_starts == tally->sum_of_starts);
}
