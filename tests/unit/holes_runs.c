#include "tests/unit/holes_runs.h"

#include <check.h>

struct run_edges run_add(struct holes *holes, uint32_t start, uint32_t n_units,
                         struct run_edges touching)
{
        ck_assert_int_eq(holes_reserve(holes, 3), 0);
        return holes_add(holes, start, n_units, touching);
}

struct run_edges run_remove(struct holes *holes, uint32_t hole, uint32_t start, uint32_t n_units)
{
        ck_assert_int_eq(holes_reserve(holes, 3), 0);
        return holes_remove(holes, hole, start, n_units);
}

uint32_t run_cut(struct holes *holes, uint32_t n_units)
{
        uint32_t hole = holes_find(holes, n_units);

        ck_assert_uint_ne(hole, 0);
        ck_assert_int_eq(holes_reserve(holes, 1), 0);
        return holes_take(holes, hole, n_units);
}

void runs_check(const struct holes *holes, const uint32_t *edges)
{
        struct holes_tally tally = {0};

        for (; *edges; edges++)
                holes_tally_run(holes, *edges, &tally);
        holes_check(holes, &tally);
}

void run_check(const struct holes *holes, uint32_t edge)
{
        runs_check(holes, (uint32_t[]){edge, 0});
}

void run_expect(const struct holes *holes, uint32_t index, enum piece_state state, uint32_t start,
                uint32_t n_units)
{
        const struct piece *piece = holes_at(holes, index);

        ck_assert_int_eq(piece->state, state);
        ck_assert_uint_eq(piece->start, start);
        ck_assert_uint_eq(piece->n_units, n_units);
}
