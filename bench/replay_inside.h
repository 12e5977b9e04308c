/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay is made of: for replay.c and replay_miss.c only. */
#pragma once

#include "base/err.h"
#include "bench/replay.h"
#include "client/reserve/trim_trigger.h"
#include "client/streams/marks.h"

struct fence {
        uint64_t epoch;
        double over_at_us;
};

struct stream {
        struct set_heap in_set;
        struct fence fences[MARKS_MAX];
        unsigned n_fences;
        struct trim_trigger trigger;
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
        struct heap_set heap_set;
        uint64_t n_live_bytes;
        uint32_t n_blocks;
        enum replay_service service;
        double next_look_us;   /* of the service; 0: it sleeps */
        struct node *own_node; /* NULL: it is somebody else's */
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

/* Notes what has been freed since the last event, with an event. */
void replay_record_work(struct replay *replay, struct stream *stream);

/* Sees which events are over. */
void replay_poll(struct replay *replay);

/* The moment when the next pending event is over; 0: none is pending. */
double replay_next_over_us(const struct replay *replay);

/* What was revoked is unmapped. */
void replay_sweep(struct replay *replay);

/* No hole of the stream's heap is large enough: memory of others is taken, or leased. */
int replay_miss(struct replay *replay, struct stream *stream, uint64_t n_bytes,
                uint64_t *ret_address);
