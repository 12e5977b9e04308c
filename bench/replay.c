/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "bench/replay_inside.h"
#include "client/pool/idle_marking.h"
#include "gpumem.h"

#define ARENA_START (UINT64_C(1) << 44)

static int join_node(struct replay *replay, const struct replay_options *options)
{
        int r = 0;

        replay->member = options->member;
        if (!replay->member) {
                r = node_new(options->n_pool_bytes, &replay->own_node);
                if (!r)
                        r = node_add_member(replay->own_node,
                                            options->n_slots ? options->n_slots : NODE_N_SLOTS,
                                            &replay->member);
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
        replay->is_dealt = options->n_streams != 0;
        replay->n_streams = replay->is_dealt ? options->n_streams : trace->n_streams;
        if (!replay->n_streams)
                replay->n_streams = 1;
        replay->service = options->service;
        heap_set_init(&replay->heap_set);
        replay->streams = calloc(replay->n_streams, sizeof(*replay->streams));
        replay->live = calloc(trace->n_ids, sizeof(*replay->live));
        if (replay->streams && replay->live)
                r = join_node(replay, options);
        if (!r)
                r = arena_new(ARENA_START, heap_set_arena_bytes(options->n_pool_bytes), &arena);
        if (r) {
                (void)replay_free(replay);
                return r;
        }
        heap_set_open(&replay->heap_set, arena, replay_runs(replay));
        heap_set_bound(&replay->heap_set, member_n_slots(replay->member));
        *ret_replay = replay;
        return 0;
}

static void free_blocks(struct heap *heap)
{
        struct heap_block *block;

        while ((block = heap_abandon_block(heap)))
                free(replay_record(block));
}

struct replay *replay_free(struct replay *replay)
{
        for (unsigned i = 0; replay->heap_set.arena && i < replay->n_streams; i++) {
                struct heap *heap = replay_heap(&replay->streams[i]);

                free_blocks(heap);
                heap_deinit(heap);
        }
        if (replay->heap_set.arena) {
                free_blocks(&replay->heap_set.idle_list.heap);
                idle_list_deinit(&replay->heap_set.idle_list);
        }
        (void)arena_free(replay->heap_set.arena);
        (void)node_free(replay->own_node);
        free(replay->streams);
        free(replay->live);
        free(replay);
        return NULL;
}

static int step_alloc(struct replay *replay, const struct trace_event *event)
{
        uint32_t number = replay->is_dealt ? event->id : event->stream;
        struct stream *stream = &replay->streams[number % replay->n_streams];
        struct live *live = &replay->live[event->id];
        int r;

        if (live->address)
                return -EINVAL;
        r = stream->is_met ? heap_alloc(replay_heap(stream), event->n_bytes, &live->address)
                           : GPUMEM_E_REFUSED;
        if (!r)
                replay->figures.hits++;
        else if (r > 0)
                r = replay_miss(replay, stream, event->n_bytes, &live->address);
        if (r == GPUMEM_E_TOO_MANY)
                return -EMFILE;
        if (r)
                return r > 0 ? -E2BIG : r;
        live->n_bytes = event->n_bytes;
        live->stream = stream;
        replay->n_live_bytes += event->n_bytes;
        if (replay->n_live_bytes > replay->figures.peak_live)
                replay->figures.peak_live = replay->n_live_bytes;
        return 0;
}

static void grant(struct replay *replay)
{
        if (replay->now_us < replay->next_grant_us)
                return;
        for (unsigned i = 0; i < replay->n_streams; i++) {
                if (replay->streams[i].is_met)
                        scan_trigger_grant(&replay->streams[i].trigger,
                                           scan_trigger_share(replay->heap_set.n_heaps),
                                           replay->heap_set.n_heaps);
        }
        replay->next_grant_us = replay->now_us + SCAN_TRIGGER_GRANT_US;
}

static bool are_all_granted(const struct replay *replay)
{
        bool are_granted = true;

        for (unsigned i = 0; i < replay->n_streams; i++) {
                const struct stream *stream = &replay->streams[i];

                are_granted = are_granted &&
                              (!stream->is_met || scan_trigger_is_granted(&stream->trigger));
        }
        return are_granted;
}

/* The work of the service thread. */
static bool look_for_all(struct replay *replay, enum idle_marking_urgency urgency)
{
        bool more;

        replay_sweep(replay);
        replay_poll(replay);
        if (urgency == IDLE_MARKING_URGENT)
                (void)heap_set_settle(&replay->heap_set);
        more = heap_set_put_idle(&replay->heap_set, 0);
        more = heap_set_settle(&replay->heap_set) || more || replay_next_over_us(replay) > 0;
        for (unsigned i = 0; i < replay->n_streams; i++) {
                if (replay->streams[i].is_met)
                        scan_trigger_lower(&replay->streams[i].trigger);
        }
        grant(replay);
        return more;
}

/* Without a service thread the threads that free do its work. */
static void look_when_due(struct replay *replay)
{
        if (heap_set_begin_look(&replay->heap_set, (uint64_t)replay->now_us))
                (void)look_for_all(replay, IDLE_MARKING_IN_TIME);
}

static void wake_service(struct replay *replay)
{
        if (replay->service == REPLAY_NO_THREAD)
                look_when_due(replay);
        else if (!replay->next_look_us || replay->next_look_us > replay->now_us + REPLAY_LOOK_US)
                replay->next_look_us = replay->now_us;
}

static void let_service_look(struct replay *replay, enum idle_marking_urgency urgency)
{
        bool more = look_for_all(replay, urgency);

        if (more)
                replay->next_look_us = replay->now_us + REPLAY_LOOK_US;
        else
                replay->next_look_us = are_all_granted(replay) ? 0 : replay->next_grant_us;
}

static void run_service(struct replay *replay)
{
        if (replay->next_look_us && replay->now_us >= replay->next_look_us)
                let_service_look(replay, IDLE_MARKING_IN_TIME);
}

static void look(struct replay *replay, struct stream *stream)
{
        struct heap *heap = replay_heap(stream);

        heap_set_see(&replay->heap_set, (uint64_t)replay->now_us);
        if (!scan_trigger_begin_record(&stream->trigger, heap)) {
                if (replay->service == REPLAY_NO_THREAD)
                        look_when_due(replay);
                return;
        }
        replay_record_work(replay, stream);
        scan_trigger_raise(&stream->trigger, &replay->heap_set, heap);
        wake_service(replay);
}

static int free_in(struct stream *stream, uint64_t address)
{
        struct heap_freed freed;
        int r = heap_free(replay_heap(stream), address, &freed);

        if (!r)
                scan_trigger_note_free(&stream->trigger, replay_heap(stream), &freed,
                                       SCAN_TRIGGER_FREE_ORDERED);
        return r;
}

static int step_free(struct replay *replay, const struct trace_event *event)
{
        struct live *live = &replay->live[event->id];
        struct stream *stream = live->stream;
        int r = live->address ? free_in(stream, live->address) : -EINVAL;

        if (r)
                return r > 0 ? -EINVAL : r;
        replay->n_live_bytes -= live->n_bytes;
        live->address = 0;
        if (scan_trigger_count_free(&stream->trigger, replay_heap(stream)))
                look(replay, stream);
        return 0;
}

/* Blocks on the idle list can be revoked at any time. */
static void sum(struct replay *replay)
{
        const struct heap *idle = &replay->heap_set.idle_list.heap;

        replay->figures.sum_live += (double)replay->n_live_bytes;
        replay->figures.sum_pinned += (double)(replay->heap_set.n_reserved_bytes -
                                               idle->n_reserved_bytes);
}

int replay_step(struct replay *replay)
{
        const struct trace_event *event = &replay->trace->events[replay->next];

        if (replay->next == replay->trace->n_events)
                return 1;
        replay->next++;
        sum(replay);
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

        /* Without a service thread the message waits for a look that is due. */
        if (news != MEMBER_NONE && replay->service == REPLAY_THREAD)
                let_service_look(replay,
                                 news == MEMBER_MARK ? IDLE_MARKING_URGENT : IDLE_MARKING_IN_TIME);
}

uint64_t replay_live(const struct replay *replay)
{
        return replay->n_live_bytes;
}

uint64_t replay_reserved(const struct replay *replay)
{
        return replay->heap_set.n_reserved_bytes;
}

void replay_get(const struct replay *replay, struct replay_figures *ret_figures)
{
        *ret_figures = replay->figures;
        ret_figures->peak_reserved = replay->heap_set.n_reserved_peak_bytes;
}
