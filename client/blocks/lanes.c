#include "client/blocks/lanes.h"

#include <string.h>

void lanes_init(struct lanes *lanes)
{
        memset(lanes, 0, sizeof(*lanes));
        pthread_mutex_init(&lanes->peaks, NULL);
        lanes->board = &lanes->own;
        for (unsigned i = 0; i < BOARD_LANES; i++)
                lanes->lanes[i].board = &lanes->own.lanes[i];
}

void lanes_deinit(struct lanes *lanes)
{
        pthread_mutex_destroy(&lanes->peaks);
}

struct lane *lanes_own(struct lanes *lanes)
{
        return &lanes->lanes[0];
}

struct lane *lanes_join(struct lanes *lanes)
{
        struct lane *best = &lanes->lanes[1];

        for (unsigned i = 2; i < BOARD_LANES; i++) {
                if (lanes->lanes[i].n_heaps < best->n_heaps)
                        best = &lanes->lanes[i];
        }
        /* Once more than one heap has counted there, a plain store might undo another's. */
        if (best->n_heaps++)
                best->shared = true;
        return best;
}

void lanes_leave(struct lane *lane)
{
        lane->n_heaps--;
}

static uint64_t load(const _Atomic uint64_t *number)
{
        return atomic_load_explicit(number, memory_order_relaxed);
}

static void raise_peak(_Atomic uint64_t *peak, uint64_t sum)
{
        if (sum > load(peak))
                atomic_store_explicit(peak, sum, memory_order_relaxed);
}

/* Each lane gets the same part of what is between the sum and the peak. */
static void spread(struct lanes *lanes, const struct board_sums *sums)
{
        uint64_t n_requested = (load(&lanes->board->requested_peak) - sums->requested) /
                               BOARD_LANES;
        uint64_t n_allocated = (load(&lanes->board->allocated_peak) - sums->allocated) /
                               BOARD_LANES;

        for (unsigned i = 0; i < BOARD_LANES; i++) {
                struct lane *lane = &lanes->lanes[i];
                struct board_lane *board = lane->board;

                atomic_store_explicit(&lane->requested_mark, load(&board->requested) + n_requested,
                                      memory_order_relaxed);
                atomic_store_explicit(&lane->allocated_mark, load(&board->allocated) + n_allocated,
                                      memory_order_relaxed);
        }
}

void lanes_pass_mark(struct lanes *lanes)
{
        struct board_sums sums;

        pthread_mutex_lock(&lanes->peaks);
        sums = board_sum(lanes->board);
        raise_peak(&lanes->board->requested_peak, sums.requested);
        raise_peak(&lanes->board->allocated_peak, sums.allocated);
        spread(lanes, &sums);
        pthread_mutex_unlock(&lanes->peaks);
}

void lanes_move(struct lanes *lanes, struct board_pool *board)
{
        struct board_pool *from = lanes->board, *to = board ? board : &lanes->own;

        if (from == to)
                return;
        pthread_mutex_lock(&lanes->peaks);
        to->requested_peak = load(&from->requested_peak);
        to->allocated_peak = load(&from->allocated_peak);
        for (unsigned i = 0; i < BOARD_LANES; i++) {
                to->lanes[i].requested = load(&from->lanes[i].requested);
                to->lanes[i].allocated = load(&from->lanes[i].allocated);
                to->lanes[i].hits = load(&from->lanes[i].hits);
                to->lanes[i].misses = load(&from->lanes[i].misses);
                lanes->lanes[i].board = &to->lanes[i];
        }
        lanes->board = to;
        pthread_mutex_unlock(&lanes->peaks);
}

void lanes_reset_peaks(struct lanes *lanes)
{
        struct board_sums sums;

        pthread_mutex_lock(&lanes->peaks);
        sums = board_sum(lanes->board);
        lanes->board->requested_peak = sums.requested;
        lanes->board->allocated_peak = sums.allocated;
        spread(lanes, &sums);
        pthread_mutex_unlock(&lanes->peaks);
}
