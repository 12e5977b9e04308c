/* SPDX-License-Identifier: Apache-2.0 */
/* Orders that play a trace through the library, some lines at a time. bench/replay.c computes what the
 * library would do; this makes the calls, at the pace that bench/replay.h assumes, since the library's
 * budget depends on the clock. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/peers/player.h"
#include "bench/replay.h"
#include "bench/trace.h"
#include "gpumem.h"

#define LINES_AT_ONCE 32

struct play {
        struct trace trace;
        void **pointers; /* by id */
        size_t next;     /* event */
};

/* One trace for each process. */
static struct play play;

/* play FILE: reads the trace; no event is played yet. */
int order_play(struct player *player, const char *file, double *ret_number)
{
        int r = trace_read(file, &play.trace);

        (void)ret_number;
        if (r)
                return player_explain(player, err_fold(r), "cannot read the trace");
        play.pointers = calloc(play.trace.n_ids, sizeof(*play.pointers));
        return play.pointers ? 0 : -ENOMEM;
}

static int play_one(struct player *player, const struct trace_event *event)
{
        void **pointer = &play.pointers[event->id];
        unsigned stream = event->stream % PLAYER_STREAMS;

        if (event->kind == TRACE_FREE)
                return player->allocator->free(player, stream, *pointer);
        return player->allocator->alloc(player, stream, event->n_bytes, pointer);
}

/* Sleeps for the time of the lines that were played: spinning would take the CPU from the daemon and from
 * the library's thread. */
static void keep_pace(uint64_t start_ns, size_t n_lines)
{
        uint64_t due_ns = start_ns + n_lines * REPLAY_US_PER_LINE * 1000;
        struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000),
                               .tv_nsec = (long)(due_ns % 1000000000)};

        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static int play_some(struct player *player, size_t n_events)
{
        uint64_t start = clock_now_ns();
        size_t n = 0;
        int r = 0;

        for (; n < n_events && play.next < play.trace.n_events && !r; n++) {
                if (n % LINES_AT_ONCE == 0)
                        keep_pace(start, n);
                r = play_one(player, &play.trace.events[play.next++]);
        }
        keep_pace(start, n);
        return r;
}

/* go N: plays N more events, or those that are left; answers the leased bytes. */
int order_go(struct player *player, const char *argument, double *ret_reserved)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = play_some(player, strtoull(argument, NULL, 10));

        if (!r)
                r = gpumem_get_stats(player->self, GPUMEM_DEVICE, player->device, &stats);
        *ret_reserved = (double)stats.n_reserved_bytes;
        return r;
}
