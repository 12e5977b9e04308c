#include "bench/replay.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/fences.h"
#include "client/looks.h"
#include "gpumem.h"

#define ARENA_START (UINT64_C(1) << 44)

struct fence {
        uint64_t epoch;
        double over_at_us;
};

struct stream {
        struct space_heap in_space;
        struct fence fences[FENCES_MAX];
        unsigned n_fences;
        struct looks looks;
        bool is_met; /* it has allocated: its heap is in the space */
};

struct live {
        uint64_t address; /* 0: none */
        uint64_t n_bytes;
};

struct replay {
        const struct trace *trace;
        size_t next;
        enum replay_memory memory;
        double now_us, us_per_line, lag_us;
        unsigned n_streams;
        struct stream *streams;
        struct live *live;
        struct space space;
        uint64_t n_live_bytes;
        uint32_t n_blocks;
        struct replay_figures figures;
};

int replay_new(const struct trace *trace, const struct replay_options *options,
               struct replay **ret_replay)
{
        struct replay *replay = calloc(1, sizeof(*replay));
        int r = -ENOMEM;

        if (!replay)
                return -ENOMEM;
        replay->trace = trace;
        replay->us_per_line = options->us_per_line;
        replay->lag_us = options->lag_us;
        replay->memory = options->memory;
        replay->n_streams = options->n_streams ? options->n_streams : 1;
        space_init(&replay->space);
        replay->streams = calloc(replay->n_streams, sizeof(*replay->streams));
        replay->live = calloc(trace->n_ids, sizeof(*replay->live));
        if (replay->streams && replay->live)
                r = arena_new(ARENA_START, space_arena_bytes(options->n_pool_bytes),
                              &replay->space.arena);
        if (r) {
                (void)replay_free(replay);
                return r;
        }
        *ret_replay = replay;
        return 0;
}

static struct heap *heap_of(struct stream *stream)
{
        return &stream->in_space.heap;
}

struct replay *replay_free(struct replay *replay)
{
        for (unsigned i = 0; replay->space.arena && i < replay->n_streams; i++) {
                struct heap *heap = heap_of(&replay->streams[i]);

                while (heap->n_blocks)
                        free(heap->blocks[--heap->n_blocks]);
                heap_deinit(heap);
        }
        (void)arena_free(replay->space.arena);
        free(replay->streams);
        free(replay->live);
        free(replay);
        return NULL;
}

/* Costs on an H200 in microseconds: a message 10; by the size create, export, import, map and access;
 * unmap and release. What is between two sizes is between their costs. */
#define MESSAGE_US 10

struct cost {
        double mib, lease_us, return_us;
};

static const struct cost costs[] = {
        {2, 8 + 18 + 47 + 4 + 42, 25 + 9},          {20, 7 + 18 + 46 + 4 + 43, 25 + 16},
        {256, 9 + 18 + 47 + 4 + 70, 35 + 112},      {1024, 13 + 18 + 48 + 4 + 85, 42 + 405},
        {8192, 57 + 18 + 49 + 5 + 252, 100 + 1928},
};

static struct cost cost_of(uint64_t n_bytes)
{
        double mib = (double)n_bytes / (double)MIB, part;
        const struct cost *low = costs;

        while (low + 2 < costs + ARRAY_SIZE(costs) && low[1].mib < mib)
                low++;
        part = (mib - low->mib) / (low[1].mib - low->mib);
        return (struct cost){mib, low->lease_us + part * (low[1].lease_us - low->lease_us),
                             low->return_us + part * (low[1].return_us - low->return_us)};
}

/* Huge pages that the daemon has faulted in, mapped and registered: 46.9 GB/s. */
static double pinned_us(uint64_t n_bytes)
{
        return (double)n_bytes / 46.9e3;
}

static void price_lease(struct replay *replay, uint64_t n_bytes)
{
        replay->figures.leases++;
        replay->figures.driver_us += MESSAGE_US + (replay->memory == REPLAY_PINNED
                                                           ? pinned_us(n_bytes)
                                                           : cost_of(n_bytes).lease_us);
}

static void price_return(struct replay *replay, uint64_t n_bytes)
{
        replay->figures.returns++;
        replay->figures.driver_us += cost_of(n_bytes).return_us;
}

static void record(struct replay *replay, struct stream *stream)
{
        struct heap *heap = heap_of(stream);

        if (replay->memory == REPLAY_PINNED || !heap->n_freed_bytes)
                return;
        if (stream->n_fences == FENCES_MAX)
                stream->n_fences--;
        stream->fences[stream->n_fences++] = (struct fence){heap_new_epoch(heap),
                                                            replay->now_us + replay->lag_us};
}

static void poll_stream(const struct replay *replay, struct stream *stream)
{
        unsigned n_over = 0;

        while (n_over < stream->n_fences && stream->fences[n_over].over_at_us <= replay->now_us)
                n_over++;
        if (!n_over)
                return;
        heap_of(stream)->n_done_epochs = stream->fences[n_over - 1].epoch + 1;
        stream->n_fences -= n_over;
        for (unsigned i = 0; i < stream->n_fences; i++)
                stream->fences[i] = stream->fences[i + n_over];
}

static void poll_all(struct replay *replay)
{
        for (unsigned i = 0; i < replay->n_streams; i++)
                poll_stream(replay, &replay->streams[i]);
}

static void make_room(struct replay *replay, uint64_t n_more_bytes, uint64_t start, uint64_t end)
{
        struct heap_block *block;

        while (replay->memory == REPLAY_DEVICE &&
               space_excess(&replay->space, n_more_bytes, (uint64_t)replay->now_us) &&
               (block = space_take_idle(&replay->space, start, end))) {
                arena_take_out(replay->space.arena, &block->at);
                space_forget(&replay->space, block->at.n_bytes);
                price_return(replay, block->at.n_bytes);
                replay->n_blocks--;
                free(block);
        }
}

/* The moment when the next pending event is over; 0: none is pending. */
static double next_over_us(const struct replay *replay)
{
        double first = 0;

        for (unsigned i = 0; i < replay->n_streams; i++) {
                const struct stream *stream = &replay->streams[i];

                if (stream->n_fences && (!first || stream->fences[0].over_at_us < first))
                        first = stream->fences[0].over_at_us;
        }
        return first;
}

static void wait_until(struct replay *replay, double us)
{
        if (us <= replay->now_us)
                return;
        replay->figures.waits++;
        replay->figures.wait_us += us - replay->now_us;
        replay->now_us = us;
}

static void make_room_or_wait(struct replay *replay, const struct placement *placement)
{
        double until_us = replay->now_us + SPACE_WAIT_US, over_us;

        make_room(replay, placement->n_bytes, placement->start, placement->end);
        while (space_is_hard(&replay->space, placement->n_bytes) &&
               (over_us = next_over_us(replay)) > 0 && replay->now_us < until_us) {
                wait_until(replay, over_us < until_us ? over_us : until_us);
                poll_all(replay);
                make_room(replay, placement->n_bytes, placement->start, placement->end);
        }
}

static int lease(struct replay *replay, struct stream *stream, const struct arena_block *part)
{
        struct heap_block *block = calloc(1, sizeof(*block));
        int r;

        if (!block)
                return -ENOMEM;
        block->at = *part;
        r = arena_put(replay->space.arena, &block->at);
        if (r) {
                free(block);
                return r;
        }
        r = heap_add_block(heap_of(stream), block);
        if (r) {
                arena_take_out(replay->space.arena, &block->at);
                free(block);
                return r;
        }
        space_count(&replay->space, part->n_bytes);
        price_lease(replay, part->n_bytes);
        if (++replay->n_blocks > replay->figures.peak_blocks)
                replay->figures.peak_blocks = replay->n_blocks;
        return 0;
}

static void want(struct replay *replay, const struct stream *stream)
{
        for (unsigned i = 0; i < replay->n_streams; i++) {
                if (&replay->streams[i] != stream)
                        looks_want(&replay->streams[i].looks);
        }
}

/* A stream gets its heap when it first allocates. */
static void meet(struct replay *replay, struct stream *stream)
{
        if (stream->is_met)
                return;
        want(replay, stream);
        looks_init(&stream->looks);
        for (unsigned i = 0; replay->space.n_heaps && i < replay->n_streams; i++)
                looks_meet(&replay->streams[i].looks);
        space_add(&replay->space, &stream->in_space,
                  replay->memory == REPLAY_DEVICE ? HEAP_JOINED : HEAP_SPLIT);
        if (replay->memory == REPLAY_PINNED)
                heap_of(stream)->n_done_epochs = UINT64_MAX;
        stream->is_met = true;
}

static int miss(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                uint64_t *ret_address)
{
        uint64_t n_allocated = (n_bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
        struct placement placement;
        int r;

        meet(replay, stream);
        record(replay, stream);
        poll_all(replay);
        want(replay, stream);
        if (replay->space.n_heaps > 1 &&
            space_adopt(&replay->space, &stream->in_space, n_allocated)) {
                replay->figures.hits++;
                return heap_alloc(heap_of(stream), n_bytes, ret_address);
        }
        replay->figures.misses++;
        (void)space_excess(&replay->space, n_allocated, (uint64_t)replay->now_us);
        r = space_plan(&replay->space, &stream->in_space, n_allocated, &placement);
        if (r)
                return -E2BIG;
        make_room_or_wait(replay, &placement);
        for (unsigned i = 0; i < placement.n_parts && !r; i++)
                r = lease(replay, stream, &placement.parts[i]);
        return r ? r : heap_alloc(heap_of(stream), n_bytes, ret_address);
}

static int step_alloc(struct replay *replay, const struct trace_event *event)
{
        struct stream *stream = &replay->streams[event->id % replay->n_streams];
        struct live *live = &replay->live[event->id];
        int r;

        if (live->address)
                return -EINVAL;
        r = stream->is_met ? heap_alloc(heap_of(stream), event->n_bytes, &live->address)
                           : GPUMEM_E_REFUSED;
        if (!r)
                replay->figures.hits++;
        else if (r > 0)
                r = miss(replay, stream, event->n_bytes, &live->address);
        if (r)
                return r > 0 ? -E2BIG : r;
        live->n_bytes = event->n_bytes;
        replay->n_live_bytes += event->n_bytes;
        if (replay->n_live_bytes > replay->figures.peak_live)
                replay->figures.peak_live = replay->n_live_bytes;
        return 0;
}

static void look(struct replay *replay, struct stream *stream)
{
        uint64_t n_excess;

        if (replay->memory == REPLAY_PINNED)
                return;
        n_excess = space_excess(&replay->space, 0, (uint64_t)replay->now_us);
        if (n_excess || looks_ask(&stream->looks, heap_of(stream)))
                record(replay, stream);
        poll_all(replay);
        if (n_excess)
                make_room(replay, 0, 0, 0);
        looks_done(&stream->looks, &replay->space, heap_of(stream),
                   space_excess(&replay->space, 0, (uint64_t)replay->now_us));
}

static int step_free(struct replay *replay, const struct trace_event *event)
{
        struct stream *stream = &replay->streams[event->id % replay->n_streams];
        struct live *live = &replay->live[event->id];
        struct heap_freed freed;
        int r = live->address ? heap_free(heap_of(stream), live->address, &freed) : -EINVAL;

        if (r)
                return r > 0 ? -EINVAL : r;
        replay->n_live_bytes -= live->n_bytes;
        live->address = 0;
        if (looks_count_free(&stream->looks, heap_of(stream)))
                look(replay, stream);
        return 0;
}

int replay_step(struct replay *replay)
{
        const struct trace_event *event = &replay->trace->events[replay->next];

        if (replay->next == replay->trace->n_events)
                return 1;
        replay->next++;
        replay->now_us += replay->us_per_line;
        return event->kind == TRACE_ALLOC ? step_alloc(replay, event) : step_free(replay, event);
}

uint64_t replay_live(const struct replay *replay)
{
        return replay->n_live_bytes;
}

uint64_t replay_reserved(const struct replay *replay)
{
        return replay->space.n_reserved_bytes;
}

void replay_get(const struct replay *replay, struct replay_figures *ret_figures)
{
        *ret_figures = replay->figures;
        ret_figures->peak_reserved = replay->space.n_reserved_peak_bytes;
}
