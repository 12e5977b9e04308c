#include "client/heap/holes.h"

#include "base/err.h"
#include "base/pages.h"
#include "client/heap/holes_index.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PIECES 64

void holes_init(struct holes *holes)
{
        memset(holes, 0, sizeof(*holes));
}

void holes_deinit(struct holes *holes)
{
        free(holes->pieces);
        holes_init(holes);
}

/* Doubled: a large array is moved by moving its pages, not its bytes. What was never touched is not
 * there yet. */
static int grow(struct holes *holes)
{
        uint32_t n_pieces = holes->n_pieces ? holes->n_pieces * 2 : FIRST_PIECES;
        struct piece *pieces;

        if (n_pieces < holes->n_pieces)
                return -ENOMEM;
        pieces = realloc(holes->pieces, n_pieces * sizeof(*pieces));
        if (!pieces)
                return -ENOMEM;
        pages_wish_large(pieces, n_pieces * sizeof(*pieces));
        holes->pieces = pieces;
        holes->n_pieces = n_pieces;
        if (!holes->n_touched) {
                holes->n_touched = 1; /* index 0 is none */
                holes_open_index(holes);
        }
        return 0;
}

int holes_grow(struct holes *holes, uint32_t n)
{
        int r = 0;

        while (!r && holes->n_unused + (holes->n_pieces - holes->n_touched) < n)
                r = grow(holes);
        return r;
}

static ALWAYS_INLINE uint32_t new_piece(struct holes *holes)
{
        uint32_t index = holes->first_unused;

        if (index) {
                holes->first_unused = holes_at(holes, index)->next;
                holes->n_unused--;
        } else {
                assert(holes->n_touched < holes->n_pieces);
                index = holes->n_touched++;
        }
        return index;
}

static void drop_piece(struct holes *holes, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);

        piece->state = PIECE_UNUSED;
        piece->next = holes->first_unused;
        holes->first_unused = index;
        holes->n_unused++;
}

/* A piece between two others. Beyond an edge is index 0, which is nobody's: what is written there is never
 * read. */
static ALWAYS_INLINE uint32_t insert(struct holes *holes, enum piece_state state, uint32_t start,
                                     uint32_t n_units, uint32_t before, uint32_t after)
{
        uint32_t index = new_piece(holes);

        *holes_at(holes, index) = (struct piece){.start = start,
                                                 .n_units = n_units,
                                                 .before = before,
                                                 .after = after,
                                                 .state = state};
        holes_at(holes, before)->after = index;
        holes_at(holes, after)->before = index;
        return index;
}

/* Takes a piece out from between its neighbours. */
static ALWAYS_INLINE void take_out(struct holes *holes, uint32_t index)
{
        const struct piece *piece = holes_at(holes, index);

        holes_at(holes, piece->before)->after = piece->after;
        holes_at(holes, piece->after)->before = piece->before;
        drop_piece(holes, index);
}

struct run_edges holes_add(struct holes *holes, uint32_t start, uint32_t n_units,
                           struct run_edges touching)
{
        uint32_t end = start + n_units, before = 0, after = 0, index;
        struct run_edges made = {0, 0};

        assert(n_units && end > start);
        if (touching.before) {
                assert(holes_at(holes, touching.before)->start == start);
                before = holes_at(holes, touching.before)->before;
                take_out(holes, touching.before);
        } else {
                before = made.before = insert(holes, PIECE_EDGE, start, 0, 0, 0);
        }
        if (touching.after) {
                assert(holes_at(holes, touching.after)->start == end);
                after = holes_at(holes, touching.after)->after;
                take_out(holes, touching.after);
        } else {
                after = made.after = insert(holes, PIECE_EDGE, end, 0, 0, 0);
        }
        index = insert(holes, PIECE_TAKEN, start, n_units, before, after);
        (void)holes_give(holes, index);
        return made;
}

/* A part of an old hole, between two pieces. */
static void put_hole(struct holes *holes, uint32_t start, uint32_t end, uint32_t before,
                     uint32_t after)
{
        holes_link(holes, insert(holes, PIECE_HOLE, start, end - start, before, after));
}

struct run_edges holes_remove(struct holes *holes, uint32_t hole, uint32_t start, uint32_t n_units)
{
        struct piece old = *holes_at(holes, hole);
        uint32_t end = start + n_units, old_end = old.start + old.n_units;
        struct run_edges made = {0, 0};

        assert(start >= old.start && end <= old_end && n_units);
        holes_unlink(holes, hole);
        take_out(holes, hole);
        /* The run falls in two, for the moment with nothing at the cut. */
        holes_at(holes, old.before)->after = 0;
        holes_at(holes, old.after)->before = 0;
        if (start == old.start && holes_at(holes, old.before)->state == PIECE_EDGE) {
                drop_piece(holes, old.before);
        } else {
                made.after = insert(holes, PIECE_EDGE, start, 0, old.before, 0);
                if (start > old.start)
                        put_hole(holes, old.start, start, old.before, made.after);
        }
        if (end == old_end && holes_at(holes, old.after)->state == PIECE_EDGE) {
                drop_piece(holes, old.after);
        } else {
                made.before = insert(holes, PIECE_EDGE, end, 0, 0, old.after);
                if (end < old_end)
                        put_hole(holes, end, old_end, made.before, old.after);
        }
        return made;
}

uint32_t holes_take(struct holes *holes, uint32_t hole, uint32_t n_units)
{
        struct piece *piece = holes_at(holes, hole);
        uint32_t taken;

        assert(n_units && n_units <= piece->n_units);
        if (n_units == piece->n_units) {
                holes_unlink(holes, hole);
                piece->state = PIECE_TAKEN;
                return hole;
        }
        taken = insert(holes, PIECE_TAKEN, piece->start, n_units, piece->before, hole);
        piece->start += n_units;
        holes_resize(holes, hole, piece->n_units - n_units);
        holes->n_splits++;
        return taken;
}

static bool is_hole(const struct holes *holes, uint32_t index)
{
        return holes_at(holes, index)->state == PIECE_HOLE;
}

/* The hole behind a piece goes, whose memory the piece is to take in; its units. */
static uint32_t take_next(struct holes *holes, struct piece *piece, uint32_t index)
{
        uint32_t hole = piece->after, n_units = holes_at(holes, hole)->n_units;

        holes_unlink(holes, hole);
        piece->after = holes_at(holes, hole)->after;
        holes_at(holes, piece->after)->before = index;
        drop_piece(holes, hole);
        holes->n_merges++;
        return n_units;
}

/* A hole takes in the piece beside it, which is in no list, and so many units that were beside that. */
static ALWAYS_INLINE void take_in(struct holes *holes, uint32_t hole, uint32_t beside,
                                  uint32_t n_more_units)
{
        struct piece *piece = holes_at(holes, hole);
        const struct piece *old = holes_at(holes, beside);

        if (old->start < piece->start)
                piece->start = old->start;
        holes_resize(holes, hole, piece->n_units + old->n_units + n_more_units);
        take_out(holes, beside);
        holes->n_merges++;
}

uint32_t holes_give(struct holes *holes, uint32_t taken)
{
        struct piece *piece = holes_at(holes, taken);
        uint32_t before = piece->before, after = piece->after, n_more_units = 0;

        assert(piece->state == PIECE_TAKEN);
        if (is_hole(holes, before)) {
                if (is_hole(holes, after))
                        n_more_units = take_next(holes, piece, taken);
                take_in(holes, before, taken, n_more_units);
                return before;
        }
        if (is_hole(holes, after)) {
                take_in(holes, after, taken, 0);
                return after;
        }
        holes_link(holes, taken);
        return taken;
}

void holes_tally_run(const struct holes *holes, uint32_t edge, struct holes_tally *tally)
{
        uint32_t before = 0, index = edge;

        assert(holes_at(holes, edge)->state == PIECE_EDGE && !holes_at(holes, edge)->before);
        for (; index; before = index, index = holes_at(holes, index)->after) {
                const struct piece *piece = holes_at(holes, index);
                const struct piece *last = holes_at(holes, before);

                tally->n_pieces++;
                assert(piece->before == before);
                assert(!before || piece->start == last->start + last->n_units);
                if (piece->state == PIECE_EDGE) {
                        assert(!piece->n_units && (!before || !piece->after));
                        continue;
                }
                assert(before && piece->after && piece->n_units);
                assert(piece->state == PIECE_TAKEN || piece->state == PIECE_HOLE);
                tally->n_run_units += piece->n_units;
                if (piece->state != PIECE_HOLE)
                        continue;
                assert(last->state != PIECE_HOLE);
                tally->n_holes++;
                tally->n_hole_units += piece->n_units;
                tally->sum_of_holes += index;
        }
        assert(before != edge);
        assert(holes_at(holes, before)->state == PIECE_EDGE);
}

void holes_check(const struct holes *holes, const struct holes_tally *tally)
{
        struct holes_tally indexed = {0};
        uint32_t n_unused = 0;

        holes_tally_index(holes, &indexed);
        assert(indexed.n_holes == holes->n_holes && indexed.n_holes == tally->n_holes);
        assert(indexed.n_hole_units == holes->n_units &&
               indexed.n_hole_units == tally->n_hole_units);
        assert(indexed.sum_of_holes == tally->sum_of_holes);
        for (uint32_t index = holes->first_unused; index; index = holes_at(holes, index)->next) {
                assert(holes_at(holes, index)->state == PIECE_UNUSED);
                n_unused++;
        }
        assert(n_unused == holes->n_unused);
        assert(!holes->n_touched || tally->n_pieces + n_unused + 1 == holes->n_touched);
}
