/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a replay, for replay.c and replay_miss.c only. */
#pragma once

#include "base/err.h"
#include "bench/replay.h"
#include "client/reserve/scan_trigger.h"
#include "client/streams/marks.h"

struct fence {
        uint64_t epoch;
        double over_at_us;
};

struct stream {
        struct set_heap in_set;
        struct fence fences[MARKS_MAX];
        unsigned n_fences;
        struct scan_trigger trigger;
        bool is_met; /* it has allocated: its heap is in the heap set */
};

struct record {
        struct heap_block block;
};

struct live {
        uint64_t address; /* 0: none */
        uint64_t n_bytes;
        struct stream *stream;
};

struct replay {
        const struct trace *trace;
        size_t next;
        enum replay_memory memory;
        double now_us, us_per_line, lag_us;
        unsigned n_streams;
        bool is_dealt; /* to the streams, by id */
        struct stream *streams;
        struct live *live;
        struct heap_set heap_set;
        uint64_t n_live_bytes;
        uint32_t n_blocks;
        enum replay_service service;
        double next_look_us;   /* of the service thread; 0: it sleeps */
        double next_grant_us;  /* of small records; see client/reserve/scan_trigger.h */
        struct node *own_node; /* NULL: the caller owns the node */
        struct member *member;
        struct replay_figures figures;
};

static inline enum heap_runs replay_runs(const struct replay *replay)
{
        return replay->memory == REPLAY_DEVICE ? HEAP_JOINED : HEAP_SPLIT;
}

static inline struct heap *replay_heap(struct stream *stream)
{
        return &stream->in_set.heap;
}

static inline struct record *replay_record(struct heap_block *block)
{
        return CONTAINER_OF(block, struct record, block);
}

/* Records an event for the memory that was freed since the last one. */
void replay_record_work(struct replay *replay, struct stream *stream);

/* Notes which events are over. */
void replay_poll(struct replay *replay);

/* When the next pending event will be over; 0: none is pending. */
double replay_next_over_us(const struct replay *replay);

/* Unmaps revoked blocks. */
void replay_sweep(struct replay *replay);

/* The stream's heap has no hole that is large enough: takes memory from other heaps, or leases it. */
int replay_miss(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                uint64_t *ret_address);
