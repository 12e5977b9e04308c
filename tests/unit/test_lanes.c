/* Counters in lanes: their sums, and the peaks of the sums. */
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/blocks/lanes.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_LIVE_MAX 500

static struct lanes lanes;

static void come(struct lane *lane, uint64_t n_requested, uint64_t n_allocated)
{
        lanes_count(&lanes, lane, LANE_HIT, n_requested, n_allocated);
}

static void go(struct lane *lane, uint64_t n_requested, uint64_t n_allocated)
{
        lanes_discount(lane, n_requested, n_allocated);
}

static void expect(uint64_t n_requested, uint64_t n_allocated)
{
        struct board_sums sums = board_sum(lanes.board);

        ck_assert_uint_eq(sums.requested, n_requested);
        ck_assert_uint_eq(sums.allocated, n_allocated);
}

static void expect_peaks(uint64_t n_requested, uint64_t n_allocated)
{
        ck_assert_uint_eq(lanes.board->requested_peak, n_requested);
        ck_assert_uint_eq(lanes.board->allocated_peak, n_allocated);
}

TEST(nothing_is_counted_yet)
{
        lanes_init(&lanes);
        expect(0, 0);
        expect_peaks(0, 0);
        lanes_deinit(&lanes);
}

TEST(hits_and_misses_are_told_apart)
{
        struct lane *lane;
        struct board_sums sums;

        lanes_init(&lanes);
        lane = lanes_join(&lanes);
        lanes_count(&lanes, lane, LANE_MISS, 100, 512);
        lanes_count(&lanes, lane, LANE_HIT, 200, 512);
        lanes_count(&lanes, lanes_own(&lanes), LANE_HIT, 300, 512);
        lanes_discount(lane, 100, 512);
        sums = board_sum(lanes.board);
        ck_assert_uint_eq(sums.hits, 2);
        ck_assert_uint_eq(sums.misses, 1);
        expect(500, 1024);
        expect_peaks(600, 1536);
        lanes_deinit(&lanes);
}

/* The first lane is never given; the others evenly, and one that was left goes first. */
TEST(the_lane_with_the_fewest_heaps_is_given)
{
        struct lane *first[BOARD_LANES - 1], *second;

        lanes_init(&lanes);
        for (unsigned i = 0; i < BOARD_LANES - 1; i++) {
                first[i] = lanes_join(&lanes);
                ck_assert_ptr_ne(first[i], lanes_own(&lanes));
                ck_assert_uint_eq(first[i]->n_heaps, 1);
                ck_assert(!first[i]->shared);
        }
        lanes_leave(first[3]);
        ck_assert_ptr_eq(lanes_join(&lanes), first[3]);
        ck_assert(!first[3]->shared);
        second = lanes_join(&lanes);
        ck_assert_uint_eq(second->n_heaps, 2);
        ck_assert(second->shared);
        lanes_leave(second);
        ck_assert(second->shared);
        lanes_deinit(&lanes);
}

/* One below the peak and one above it, as often as one likes. */
TEST(a_lanes_peak_is_exact)
{
        struct lane *lane;

        lanes_init(&lanes);
        lane = lanes_join(&lanes);
        for (uint64_t i = 1; i <= 1000; i++) {
                come(lane, i, 512 * i);
                expect_peaks(i, 512 * i);
                go(lane, i, 512 * i);
                expect(0, 0);
                expect_peaks(i, 512 * i);
        }
        lanes_deinit(&lanes);
}

/* The peaks of requested and of allocated bytes are at different times. */
TEST(each_peak_is_its_own)
{
        struct lane *lane;

        lanes_init(&lanes);
        lane = lanes_join(&lanes);
        come(lane, 512, 512);
        go(lane, 512, 512);
        come(lane, 1, 512);
        come(lane, 1, 512);
        expect_peaks(512, 1024);
        lanes_deinit(&lanes);
}

/* A peak from before, and then all lanes rise to it and beyond at the same time: in one of the two
 * numbers only, so that the other does not make anybody look. */
static const struct {
        uint64_t n_requested, n_allocated;
} rise_rows[] = {{100, 0}, {0, 100}};

TEST(lanes_that_rise_together_find_the_peak, .to = ARRAY_SIZE(rise_rows))
{
        uint64_t n_requested = rise_rows[_i].n_requested, n_allocated = rise_rows[_i].n_allocated;
        struct lane *given[BOARD_LANES] = {lanes_own(&lanes)};

        lanes_init(&lanes);
        for (unsigned i = 1; i < BOARD_LANES; i++)
                given[i] = lanes_join(&lanes);
        come(given[0], 80 * n_requested, 80 * n_allocated);
        go(given[0], 80 * n_requested, 80 * n_allocated);
        for (uint64_t n = 1; n <= 100; n++) {
                uint64_t n_peak = n < 80 ? 80 : n;

                come(given[n % BOARD_LANES], n_requested, n_allocated);
                expect_peaks(n_peak * n_requested, n_peak * n_allocated);
        }
        lanes_deinit(&lanes);
}

struct counted {
        struct lane *lane;
        uint64_t n_requested, n_allocated;
};

struct naive {
        struct test_random random;
        struct lane *lanes[20];
        unsigned n_lanes;
        struct counted live[N_LIVE_MAX];
        unsigned n_live;
        uint64_t n_requested, n_allocated, n_requested_peak, n_allocated_peak;
};

static void raise(uint64_t *peak, uint64_t n)
{
        if (n > *peak)
                *peak = n;
}

static void naive_come(struct naive *naive)
{
        struct counted *counted = &naive->live[naive->n_live];
        uint64_t n_bytes = test_random_size(&naive->random, GIB);

        if (naive->n_live == N_LIVE_MAX)
                return;
        naive->n_live++;
        *counted = (struct counted){
                .lane = naive->lanes[test_random_below(&naive->random, naive->n_lanes)],
                .n_requested = test_random_size(&naive->random, n_bytes),
                .n_allocated = n_bytes};
        naive->n_requested += counted->n_requested;
        naive->n_allocated += counted->n_allocated;
        raise(&naive->n_requested_peak, naive->n_requested);
        raise(&naive->n_allocated_peak, naive->n_allocated);
        come(counted->lane, counted->n_requested, counted->n_allocated);
}

static void naive_go(struct naive *naive)
{
        struct counted *counted;

        if (!naive->n_live)
                return;
        counted = &naive->live[test_random_below(&naive->random, naive->n_live)];
        naive->n_requested -= counted->n_requested;
        naive->n_allocated -= counted->n_allocated;
        go(counted->lane, counted->n_requested, counted->n_allocated);
        *counted = naive->live[--naive->n_live];
}

static void naive_reset(struct naive *naive)
{
        naive->n_requested_peak = naive->n_requested;
        naive->n_allocated_peak = naive->n_allocated;
        lanes_reset_peaks(&lanes);
}

static bool is_right(const struct naive *naive)
{
        struct board_sums sums = board_sum(lanes.board);

        return sums.requested == naive->n_requested && sums.allocated == naive->n_allocated &&
               lanes.board->requested_peak == naive->n_requested_peak &&
               lanes.board->allocated_peak == naive->n_allocated_peak;
}

/* One heap, as many as there are lanes, and more than there are, so that lanes are shared; now and
 * then on another board. Few bytes of some are requested: the two peaks come at different times. */
TEST(sums_and_peaks_are_exact_at_each_step, .to = 4)
{
        static const unsigned n_heaps[] = {1, 2, BOARD_LANES - 1, 20};
        static struct board_pool boards[2];
        static struct naive naive;

        naive = (struct naive){.random = test_random_begin(), .n_lanes = n_heaps[_i]};
        lanes_init(&lanes);
        for (unsigned i = 0; i < naive.n_lanes; i++)
                naive.lanes[i] = lanes_join(&lanes);
        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                uint64_t choice = test_random_below(&naive.random, 1000);

                if (choice < (step / 2000 % 2 ? 300 : 600))
                        naive_come(&naive);
                else if (choice < 996)
                        naive_go(&naive);
                else if (choice < 997)
                        naive_reset(&naive);
                else
                        lanes_move(&lanes, choice < 999 ? &boards[choice - 997] : NULL);
                if (!is_right(&naive))
                        ck_abort_msg("step %" PRIu64, step);
        }
        lanes_deinit(&lanes);
}

TEST(a_new_board_says_what_the_old_one_said)
{
        static struct board_pool board;
        struct lane *lane;

        lanes_init(&lanes);
        lane = lanes_join(&lanes);
        come(lane, 1000, 1024);
        go(lane, 1000, 1024);
        come(lane, 100, 512);
        lanes_move(&lanes, &board);
        ck_assert_ptr_eq(lanes.board, &board);
        expect(100, 512);
        expect_peaks(1000, 1024);
        ck_assert_uint_eq(board_sum(&board).hits, 2);
        come(lane, 1000, 1024);
        expect_peaks(1100, 1536);
        lanes_move(&lanes, &board);
        expect(1100, 1536);
        lanes_move(&lanes, NULL);
        go(lane, 1000, 1024);
        expect(100, 512);
        expect_peaks(1100, 1536);
        ck_assert_uint_eq(board_sum(&board).requested, 1100);
        lanes_deinit(&lanes);
}

TESTS_MAIN("lanes", .limit_s = UNLIMITED)
