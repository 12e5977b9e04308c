/* Orders that play a trace through the library. Unlike bench/replay.c, which computes what the library
 * would do, this makes the calls, at the pace that bench/replay.h takes for its own: the library's budget
 * goes by the clock. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/peers/blocks.h"
#include "bench/replay.h"
#include "bench/timing.h"
#include "bench/trace.h"
#include "gpumem.h"

#define LINES_AT_ONCE 32

struct play {
        struct trace trace;
        void **pointers; /* by id */
        uint64_t *sizes;
        size_t next; /* event */
        uint64_t n_live_bytes, n_live_peak_bytes;
};

/* One at a time: a process plays one trace. */
static struct play play;

static int open_play(struct player *player, const char *file)
{
        int r = trace_read(file, &play.trace);

        if (r)
                return player_explain(player, err_fold(r), "the trace could not be read");
        play.pointers = calloc(play.trace.n_ids, sizeof(*play.pointers));
        play.sizes = calloc(play.trace.n_ids, sizeof(*play.sizes));
        if (!play.pointers || !play.sizes)
                return -ENOMEM;
        r = gpumem_reset_peaks(player->self, GPUMEM_DEVICE, player->stage.device);
        return r ? r : reserved_reset(player);
}

static int play_one(struct player *player, const struct trace_event *event)
{
        void **pointer = &play.pointers[event->id];
        int r;

        if (event->kind == TRACE_FREE) {
                play.n_live_bytes -= play.sizes[event->id];
                return player->allocator->free(player, 0, *pointer);
        }
        r = player->allocator->alloc(player, 0, event->n_bytes, pointer);
        if (r)
                return r;
        play.sizes[event->id] = event->n_bytes;
        play.n_live_bytes += event->n_bytes;
        if (play.n_live_bytes > play.n_live_peak_bytes)
                play.n_live_peak_bytes = play.n_live_bytes;
        return 0;
}

/* Lines are played some at a time, and their time is slept through: who spins keeps the CPU from the
 * daemon and from the library's own thread. */
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

/* trace FILE: the peak of the bytes asked for, the peak of what was leased for them, hits in percent, the peak
 * of what the daemon held of the device. */
int order_trace(struct player *player, const char *argument, double ret_numbers[static 4])
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        double reserved;
        int r = open_play(player, argument);

        if (!r)
                r = play_some(player, play.trace.n_events);
        if (!r)
                r = gpumem_get_stats(player->self, GPUMEM_DEVICE, player->stage.device, &stats);
        ret_numbers[0] = (double)play.n_live_peak_bytes;
        if (!r)
                r = reserved_read(player, &reserved, &ret_numbers[3]);
        ret_numbers[1] = (double)stats.n_reserved_peak_bytes;
        ret_numbers[2] = 100 * (double)stats.n_hits / (double)(stats.n_hits + stats.n_misses);
        return r;
}

/* play FILE: its number of events, of which none has been played. */
int order_play(struct player *player, const char *argument, double ret_numbers[static 1])
{
        int r = open_play(player, argument);

        ret_numbers[0] = (double)play.trace.n_events;
        return r;
}

/* go N: plays so many events, if there are; bytes live, bytes leased. */
int order_go(struct player *player, const char *argument, double ret_numbers[static 2])
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = play_some(player, strtoull(argument, NULL, 10));

        if (!r)
                r = gpumem_get_stats(player->self, GPUMEM_DEVICE, player->stage.device, &stats);
        ret_numbers[0] = (double)play.n_live_bytes;
        ret_numbers[1] = (double)stats.n_reserved_bytes;
        return r;
}
