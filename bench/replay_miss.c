/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a miss, and the return of blocks. */
#include <errno.h>
#include <stdlib.h>

#include "bench/replay_inside.h"
#include "gpumem.h"

/* Costs in microseconds: a message takes 10; the table has create, export, import, map and access, and
 * unmap and release, by size; and for a move map, access and unmap. Costs between two sizes are interpolated. */
#define MESSAGE_US 10

/* cuMemRetainAllocationHandle and the release of that handle, on an H100. */
#define RETAIN_US 2.4

struct cost {
        double mib, lease_us, return_us, move_us;
};

static const struct cost costs[] = {
        {2, 8 + 18 + 47 + 4 + 42, 25 + 9, 4 + 42 + 25},
        {20, 7 + 18 + 46 + 4 + 43, 25 + 16, 4 + 43 + 25},
        {256, 9 + 18 + 47 + 4 + 70, 35 + 112, 4 + 70 + 35},
        {1024, 13 + 18 + 48 + 4 + 85, 42 + 405, 4 + 85 + 42},
        {8192, 57 + 18 + 49 + 5 + 252, 100 + 1928, 5 + 252 + 100},
};

static struct cost cost_of(uint64_t n_bytes)
{
        double mib = (double)n_bytes / (double)MIB, part;
        const struct cost *low = costs;

        while (low + 2 < costs + ARRAY_SIZE(costs) && low[1].mib < mib)
                low++;
        part = (mib - low->mib) / (low[1].mib - low->mib);
        return (struct cost){mib, low->lease_us + part * (low[1].lease_us - low->lease_us),
                             low->return_us + part * (low[1].return_us - low->return_us),
                             low->move_us + part * (low[1].move_us - low->move_us)};
}

/* Huge pages that the daemon has faulted in, mapped and registered: 46.9 GB/s. */
static double pinned_us(uint64_t n_bytes)
{
        return (double)n_bytes / 46.9e3;
}

static double price_of_lease(enum replay_memory memory, uint64_t n_bytes)
{
        return MESSAGE_US +
               (memory == REPLAY_PINNED ? pinned_us(n_bytes) : cost_of(n_bytes).lease_us);
}

static double price_of_return(uint64_t n_bytes)
{
        return cost_of(n_bytes).return_us;
}

void replay_record_work(struct replay *replay, struct stream *stream)
{
        struct heap *heap = replay_heap(stream);

        if (replay->memory == REPLAY_PINNED || !heap->n_freed_bytes)
                return;
        if (stream->n_fences == MARKS_MAX)
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
        replay_heap(stream)->n_done_epochs = stream->fences[n_over - 1].epoch + 1;
        stream->n_fences -= n_over;
        for (unsigned i = 0; i < stream->n_fences; i++)
                stream->fences[i] = stream->fences[i + n_over];
}

void replay_poll(struct replay *replay)
{
        for (unsigned i = 0; i < replay->n_streams; i++)
                poll_stream(replay, &replay->streams[i]);
}

static void forget(struct replay *replay, struct heap_block *block)
{
        arena_take_out(replay->heap_set.arena, &block->at);
        replay->figures.returns++;
        replay->figures.driver_us += price_of_return(block->at.n_bytes);
        replay->n_blocks--;
        free(replay_record(block));
}

static void give_back(struct replay *replay, struct heap_block *block)
{
        heap_set_forget(&replay->heap_set, block->at.n_bytes);
        member_return(replay->member, block->lease);
        forget(replay, block);
}

static void make_room(struct replay *replay, uint64_t n_more_bytes, uint64_t start, uint64_t end)
{
        struct heap_block *block;

        while (replay->memory == REPLAY_DEVICE &&
               heap_set_excess(&replay->heap_set, n_more_bytes, (uint64_t)replay->now_us) &&
               (block = heap_set_take_idle(&replay->heap_set, start, end)))
                give_back(replay, block);
}

/* No slot is free: empty blocks give theirs back, and the next leases are larger. */
static void free_slots(struct replay *replay)
{
        struct heap_block *block;

        heap_set_join(&replay->heap_set);
        while ((block = heap_set_take_idle(&replay->heap_set, 0, 0)))
                give_back(replay, block);
}

void replay_sweep(struct replay *replay)
{
        struct heap_block *block;

        idle_list_sweep(&replay->heap_set.idle_list);
        while ((block = idle_list_next_revoked(&replay->heap_set.idle_list))) {
                replay->heap_set.n_reserved_bytes -= block->at.n_bytes;
                member_unmapped(replay->member, block->lease);
                forget(replay, block);
        }
}

double replay_next_over_us(const struct replay *replay)
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

static void make_room_or_wait(struct replay *replay, const struct new_blocks *new_blocks)
{
        double since_us = replay->now_us, until_us = since_us + HEAP_SET_WAIT_US, over_us;

        make_room(replay, new_blocks->n_bytes, new_blocks->start, new_blocks->end);
        while (heap_set_is_hard(&replay->heap_set, new_blocks->n_bytes) &&
               (over_us = replay_next_over_us(replay)) > 0 && replay->now_us < until_us) {
                wait_until(replay, over_us < until_us ? over_us : until_us);
                replay_poll(replay);
                make_room(replay, new_blocks->n_bytes, new_blocks->start, new_blocks->end);
        }
        budget_wait(&replay->heap_set.budget, (uint64_t)(replay->now_us - since_us));
}

/* Leases a block for that place. */
static int lease(struct replay *replay, const struct arena_block *part, enum heap_set_parts kind,
                 uint64_t n_most_bytes, struct record **ret_record)
{
        struct record *record = calloc(1, sizeof(*record));
        struct node_lease lease;
        int r;

        if (!record)
                return -ENOMEM;
        r = member_lease(replay->member, part->n_bytes, heap_set_least_bytes(part->n_bytes, kind),
                         n_most_bytes, &lease);
        if (r) {
                free(record);
                return r;
        }
        record->block.at = (struct arena_block){part->start, lease.n_bytes};
        record->block.lease = lease.id;
        record->block.word = lease.word;
        r = arena_put(replay->heap_set.arena, &record->block.at);
        if (r) {
                member_return(replay->member, lease.id);
                free(record);
                return r;
        }
        *ret_record = record;
        return 0;
}

static int lease_into(struct replay *replay, struct stream *stream, const struct arena_block *part,
                      enum heap_set_parts kind, uint64_t n_most_bytes)
{
        struct record *record;
        int r = lease(replay, part, kind, n_most_bytes, &record);

        if (!r)
                r = heap_add_block(replay_heap(stream), &record->block);
        if (r)
                return r;
        heap_set_count(&replay->heap_set, record->block.at.n_bytes);
        replay->figures.leases++;
        replay->figures.driver_us += price_of_lease(replay->memory, record->block.at.n_bytes);
        if (++replay->n_blocks > replay->figures.peak_blocks)
                replay->figures.peak_blocks = replay->n_blocks;
        /* If a part came smaller, those above it would not touch it. */
        return record->block.at.n_bytes < part->n_bytes ? GPUMEM_E_REFUSED : 0;
}

static void want(struct replay *replay, const struct stream *stream)
{
        for (unsigned i = 0; i < replay->n_streams; i++) {
                if (&replay->streams[i] != stream)
                        scan_trigger_note_lack(&replay->streams[i].trigger, false);
        }
}

/* A stream gets its heap with its first allocation. */
static void meet(struct replay *replay, struct stream *stream)
{
        if (stream->is_met)
                return;
        scan_trigger_init(&stream->trigger);
        scan_trigger_lower(&stream->trigger);
        scan_trigger_grant(&stream->trigger, scan_trigger_share(replay->heap_set.n_heaps),
                           replay->heap_set.n_heaps);
        for (unsigned i = 0; replay->heap_set.n_heaps && i < replay->n_streams; i++)
                scan_trigger_note_other(&replay->streams[i].trigger);
        heap_set_add(&replay->heap_set, &stream->in_set, replay_runs(replay));
        if (replay->memory == REPLAY_PINNED)
                replay_heap(stream)->n_done_epochs = UINT64_MAX;
        stream->is_met = true;
}

/* Maps the block at its new address. */
static int move(struct replay *replay, struct stream *stream, const struct heap_set_move *move)
{
        struct heap_block *block = move->block;
        int r;

        arena_take_out(replay->heap_set.arena, &block->at);
        block->at.start = move->to;
        r = arena_put(replay->heap_set.arena, &block->at);
        if (!r)
                r = heap_add_block(replay_heap(stream), block);
        replay->figures.moves++;
        replay->figures.driver_us += RETAIN_US + cost_of(block->at.n_bytes).move_us;
        return r;
}

/* Moves blocks instead of leasing more than the budget allows. */
static int move_some(struct replay *replay, struct stream *stream, struct new_blocks *new_blocks)
{
        struct heap_set_move moves[HEAP_SET_MOVES];
        unsigned n;
        int r = 0;

        if (replay->memory != REPLAY_DEVICE ||
            !heap_set_excess(&replay->heap_set, new_blocks->n_bytes, (uint64_t)replay->now_us))
                return 0;
        n = heap_set_take_moves(&replay->heap_set, &stream->in_set, HEAP_SET_ALL, HEAP_SET_MOVES,
                                new_blocks, moves);
        for (unsigned i = 0; i < n && !r; i++)
                r = move(replay, stream, &moves[i]);
        return r;
}

static int lease_parts(struct replay *replay, struct stream *stream,
                       const struct new_blocks *new_blocks, enum heap_set_parts kind)
{
        int r = 0;

        make_room_or_wait(replay, new_blocks);
        for (unsigned i = 0; i < new_blocks->n_parts && !r; i++)
                r = lease_into(replay, stream, &new_blocks->parts[i], kind,
                               heap_set_most_bytes(&replay->heap_set, new_blocks, i));
        return r;
}

/* Whose blocks the request may have. Those that may give some look how far their streams have come. */
static enum heap_set_reach reach_of(struct replay *replay, const struct stream *stream,
                                    uint64_t n_allocated_bytes)
{
        if (heap_set_may_grow(&replay->heap_set, n_allocated_bytes, (uint64_t)replay->now_us))
                return HEAP_SET_ALONE;
        want(replay, stream);
        return HEAP_SET_ALL;
}

/* GPUMEM_E_REFUSED: a part came smaller, and the rest must be planned again. */
static int attempt(struct replay *replay, struct stream *stream, uint64_t n_allocated_bytes,
                   enum heap_set_parts kind, bool *ret_leased)
{
        struct new_blocks new_blocks;
        enum heap_set_reach reach;
        int r;

        replay_sweep(replay);
        replay_record_work(replay, stream);
        replay_poll(replay);
        reach = reach_of(replay, stream, n_allocated_bytes);
        if (reach == HEAP_SET_ALL &&
            heap_set_adopt(&replay->heap_set, &stream->in_set, n_allocated_bytes))
                return 0;
        (void)heap_set_excess(&replay->heap_set, n_allocated_bytes, (uint64_t)replay->now_us);
        r = heap_set_plan(&replay->heap_set, &stream->in_set, n_allocated_bytes, reach,
                          &new_blocks);
        if (r)
                return -E2BIG;
        r = heap_set_take_planned(&replay->heap_set, &stream->in_set, &new_blocks);
        if (r || !new_blocks.n_parts)
                return r > 0 ? GPUMEM_E_REFUSED : r;
        *ret_leased = true;
        r = move_some(replay, stream, &new_blocks);
        return r || !new_blocks.n_parts ? r : lease_parts(replay, stream, &new_blocks, kind);
}

/* Where blocks are kept apart, nothing is assembled from smaller ones. */
static enum heap_set_parts parts_of_try(const struct replay *replay, unsigned try)
{
        return replay_runs(replay) == HEAP_SPLIT ? HEAP_SET_WHOLE_PARTS
                                                 : heap_set_parts_of_try(try);
}

static int attempt_some(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                        bool *ret_leased, uint64_t *ret_address)
{
        uint64_t n_allocated_bytes = heap_round_up(n_bytes);
        int r = GPUMEM_E_REFUSED;

        for (unsigned i = 0; r == GPUMEM_E_REFUSED && i < HEAP_SET_TRIES; i++) {
                r = attempt(replay, stream, n_allocated_bytes, parts_of_try(replay, i), ret_leased);
                if (r >= 0 && r != GPUMEM_E_TOO_MANY)
                        r = heap_alloc(replay_heap(stream), n_bytes, ret_address);
        }
        return r;
}

int replay_miss(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                uint64_t *ret_address)
{
        bool leased = false;
        int r;

        meet(replay, stream);
        r = attempt_some(replay, stream, n_bytes, &leased, ret_address);
        if (r == GPUMEM_E_TOO_MANY) {
                free_slots(replay);
                r = attempt_some(replay, stream, n_bytes, &leased, ret_address);
        }
        if (leased)
                replay->figures.misses++;
        else
                replay->figures.hits++;
        return r;
}
