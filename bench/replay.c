#include "bench/replay.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/elastic.h"
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

struct record {
        struct heap_block block;
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
        enum replay_service service;
        double next_look_us;   /* of the service; 0: it sleeps */
        struct node *own_node; /* NULL: it is somebody else's */
        struct member *member;
        struct replay_figures figures;
};

static enum heap_runs runs_of(const struct replay *replay)
{
        return replay->memory == REPLAY_DEVICE ? HEAP_JOINED : HEAP_SPLIT;
}

static int join_node(struct replay *replay, const struct replay_options *options)
{
        int r = 0;

        replay->member = options->member;
        if (!replay->member) {
                r = node_new(options->n_pool_bytes, &replay->own_node);
                if (!r)
                        r = node_add_member(replay->own_node, &replay->member);
        }
        return r;
}

int replay_new(const struct trace *trace, const struct replay_options *options,
               struct replay **ret_replay)
{
        struct replay *replay = calloc(1, sizeof(*replay));
        struct arena *arena;
        int r = -ENOMEM;

        if (!replay)
                return -ENOMEM;
        replay->trace = trace;
        replay->us_per_line = options->us_per_line;
        replay->lag_us = options->lag_us;
        replay->memory = options->memory;
        replay->n_streams = options->n_streams ? options->n_streams : 1;
        replay->service = options->service;
        space_init(&replay->space);
        replay->streams = calloc(replay->n_streams, sizeof(*replay->streams));
        replay->live = calloc(trace->n_ids, sizeof(*replay->live));
        if (replay->streams && replay->live)
                r = join_node(replay, options);
        if (!r)
                r = arena_new(ARENA_START, space_arena_bytes(options->n_pool_bytes), &arena);
        if (r) {
                (void)replay_free(replay);
                return r;
        }
        space_open(&replay->space, arena, runs_of(replay));
        *ret_replay = replay;
        return 0;
}

static struct heap *heap_of(struct stream *stream)
{
        return &stream->in_space.heap;
}

static struct record *record_of(struct heap_block *block)
{
        return CONTAINER_OF(block, struct record, block);
}

static void free_blocks(struct heap *heap)
{
        while (heap->n_blocks)
                free(record_of(heap->blocks[--heap->n_blocks]));
}

struct replay *replay_free(struct replay *replay)
{
        for (unsigned i = 0; replay->space.arena && i < replay->n_streams; i++) {
                struct heap *heap = heap_of(&replay->streams[i]);

                free_blocks(heap);
                heap_deinit(heap);
        }
        if (replay->space.arena) {
                free_blocks(&replay->space.shelf.heap);
                shelf_deinit(&replay->space.shelf);
        }
        (void)arena_free(replay->space.arena);
        (void)node_free(replay->own_node);
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

static void record_work(struct replay *replay, struct stream *stream)
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

static void forget(struct replay *replay, struct heap_block *block)
{
        arena_take_out(replay->space.arena, &block->at);
        price_return(replay, block->at.n_bytes);
        replay->n_blocks--;
        free(record_of(block));
}

static void make_room(struct replay *replay, uint64_t n_more_bytes, uint64_t start, uint64_t end)
{
        struct heap_block *block;

        while (replay->memory == REPLAY_DEVICE &&
               space_excess(&replay->space, n_more_bytes, (uint64_t)replay->now_us) &&
               (block = space_take_idle(&replay->space, start, end))) {
                space_forget(&replay->space, block->at.n_bytes);
                member_return(replay->member, block->lease);
                forget(replay, block);
        }
}

/* What was revoked is unmapped. */
static void sweep(struct replay *replay)
{
        struct heap_block *block;

        shelf_sweep(&replay->space.shelf);
        while ((block = shelf_next_revoked(&replay->space.shelf))) {
                replay->space.n_reserved_bytes -= block->at.n_bytes;
                member_unmapped(replay->member, block->lease);
                forget(replay, block);
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

/* A block as the daemon has one, for that place. */
static int lease(struct replay *replay, const struct arena_block *part, enum space_parts kind,
                 uint64_t n_most_bytes, struct record **ret_record)
{
        struct record *record = calloc(1, sizeof(*record));
        struct node_lease lease;
        int r;

        if (!record)
                return -ENOMEM;
        r = member_lease(replay->member, part->n_bytes, space_least_bytes(part->n_bytes, kind),
                         n_most_bytes, &lease);
        if (r) {
                free(record);
                return r;
        }
        record->block.at = (struct arena_block){part->start, lease.n_bytes};
        record->block.lease = lease.id;
        record->block.word = lease.word;
        r = arena_put(replay->space.arena, &record->block.at);
        if (r) {
                member_return(replay->member, lease.id);
                free(record);
                return r;
        }
        *ret_record = record;
        return 0;
}

static int lease_into(struct replay *replay, struct stream *stream, const struct arena_block *part,
                      enum space_parts kind, uint64_t n_most_bytes)
{
        struct record *record;
        int r = lease(replay, part, kind, n_most_bytes, &record);

        if (!r)
                r = heap_add_block(heap_of(stream), &record->block);
        if (r)
                return r;
        space_count(&replay->space, record->block.at.n_bytes);
        price_lease(replay, record->block.at.n_bytes);
        if (++replay->n_blocks > replay->figures.peak_blocks)
                replay->figures.peak_blocks = replay->n_blocks;
        /* Those above a part that came smaller would not touch it. */
        return record->block.at.n_bytes < part->n_bytes ? GPUMEM_E_REFUSED : 0;
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
        looks_lower(&stream->looks);
        for (unsigned i = 0; replay->space.n_heaps && i < replay->n_streams; i++)
                looks_meet(&replay->streams[i].looks);
        space_add(&replay->space, &stream->in_space, runs_of(replay));
        if (replay->memory == REPLAY_PINNED)
                heap_of(stream)->n_done_epochs = UINT64_MAX;
        stream->is_met = true;
}

/* GPUMEM_E_REFUSED: a part came smaller, and the rest is asked for anew. */
static int attempt(struct replay *replay, struct stream *stream, uint64_t n_allocated_bytes,
                   enum space_parts kind, bool *ret_leased)
{
        struct placement placement;
        int r;

        sweep(replay);
        record_work(replay, stream);
        poll_all(replay);
        want(replay, stream);
        if (space_adopt(&replay->space, &stream->in_space, n_allocated_bytes))
                return 0;
        (void)space_excess(&replay->space, n_allocated_bytes, (uint64_t)replay->now_us);
        r = space_plan(&replay->space, &stream->in_space, n_allocated_bytes, &placement);
        if (r)
                return -E2BIG;
        make_room_or_wait(replay, &placement);
        *ret_leased = true;
        for (unsigned i = 0; i < placement.n_parts && !r; i++)
                r = lease_into(replay, stream, &placement.parts[i], kind,
                               space_most_bytes(&replay->space, &placement, i));
        return r;
}

/* Where runs are kept apart nothing is put together of smaller ones. */
static enum space_parts parts_of_try(const struct replay *replay, unsigned try)
{
        return runs_of(replay) == HEAP_SPLIT ? SPACE_WHOLE_PARTS : space_parts_of_try(try);
}

static int miss(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                uint64_t *ret_address)
{
        uint64_t n_allocated_bytes = (n_bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
        bool leased = false;
        int r = GPUMEM_E_REFUSED;

        meet(replay, stream);
        for (unsigned i = 0; r == GPUMEM_E_REFUSED && i < SPACE_TRIES; i++) {
                r = attempt(replay, stream, n_allocated_bytes, parts_of_try(replay, i), &leased);
                if (r >= 0)
                        r = heap_alloc(heap_of(stream), n_bytes, ret_address);
        }
        if (leased)
                replay->figures.misses++;
        else
                replay->figures.hits++;
        return r;
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

/* What the service does. */
static bool look_for_all(struct replay *replay, enum elastic_haste haste)
{
        bool more;

        sweep(replay);
        poll_all(replay);
        if (haste == ELASTIC_AT_ONCE)
                (void)space_settle(&replay->space);
        more = space_shelve(&replay->space);
        more = space_settle(&replay->space) || more || next_over_us(replay) > 0;
        for (unsigned i = 0; i < replay->n_streams; i++) {
                if (replay->streams[i].is_met)
                        looks_lower(&replay->streams[i].looks);
        }
        return more;
}

static void wake_service(struct replay *replay)
{
        if (replay->service == REPLAY_NO_THREAD)
                (void)look_for_all(replay, ELASTIC_IN_TIME);
        else if (!replay->next_look_us)
                replay->next_look_us = replay->now_us;
}

static void let_service_look(struct replay *replay, enum elastic_haste haste)
{
        bool more = look_for_all(replay, haste);

        replay->next_look_us = more ? replay->now_us + REPLAY_LOOK_US : 0;
}

static void run_service(struct replay *replay)
{
        if (replay->next_look_us && replay->now_us >= replay->next_look_us)
                let_service_look(replay, ELASTIC_IN_TIME);
}

static void look(struct replay *replay, struct stream *stream)
{
        struct heap *heap = heap_of(stream);

        (void)space_excess(&replay->space, 0, (uint64_t)replay->now_us);
        if (!looks_are_due(&stream->looks, heap))
                return;
        record_work(replay, stream);
        looks_raise(&stream->looks, &replay->space, heap);
        wake_service(replay);
}

static int free_in(struct stream *stream, uint64_t address)
{
        struct heap_freed freed;
        int r = heap_free(heap_of(stream), address, &freed);

        if (!r)
                looks_note_free(&stream->looks, heap_of(stream), freed.n_allocated_bytes,
                                LOOKS_FREE_ORDERED);
        return r;
}

static int step_free(struct replay *replay, const struct trace_event *event)
{
        struct stream *stream = &replay->streams[event->id % replay->n_streams];
        struct live *live = &replay->live[event->id];
        int r = live->address ? free_in(stream, live->address) : -EINVAL;

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
        if (replay->own_node)
                node_set_time(replay->own_node, replay->now_us);
        if (replay->own_node)
                replay_hear(replay);
        run_service(replay);
        return event->kind == TRACE_ALLOC ? step_alloc(replay, event) : step_free(replay, event);
}

void replay_hear(struct replay *replay)
{
        enum member_news news = member_take_news(replay->member);

        if (news != MEMBER_NONE)
                let_service_look(replay, news == MEMBER_MARK ? ELASTIC_AT_ONCE : ELASTIC_IN_TIME);
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
