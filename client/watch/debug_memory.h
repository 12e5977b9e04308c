/* SPDX-License-Identifier: Apache-2.0 */
/* What GPUMEM_DEBUG=fill,guard writes into allocations and behind them, and finds there at their free; debug.h says what
 * each word means.
 *
 * Fills and guards of device memory are work in the stream of the allocation. The program does not know of it, so an
 * event tells when it is over: a free in another stream waits for it, and so does the client's end. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"
#include "driver/event.h"
#include "driver/stream.h"
#include "gpumem.h"

#define DEBUG_ALLOCATED   0xA5
#define DEBUG_FREED       0xDD
#define DEBUG_GUARD_BYTE  0xFD
#define DEBUG_GUARD_BYTES 512

struct stream_heap;
struct streams;
struct stream_uses;

/* What is needed to fill; all outlive it. */
struct debug_filler {
        const struct cuda *cuda; /* NULL: no driver */
        struct streams *streams;
        struct stream_uses *uses;
        bool is_filling; /* beside guards */
};

/* A live allocation. */
struct debug_memory {
        void *pointer;
        uint64_t n_bytes; /* as the program requested */
        enum gpumem_kind kind;
        bool is_guarded;
        struct stream_key key;    /* device memory: of the stream that it was allocated for */
        struct work_event filled; /* fill and guard; none: neither was written */
};

/* Fills the new memory, and guards it with the bytes beyond the request. Writes nothing to device memory that a stream
 * may still use because of gpumem_stream_register. */
int debug_memory_begin(const struct debug_filler *filler, const struct gpumem_request *asked,
                       uint64_t n_more_bytes, struct debug_memory *memory);

/* The same for memory with a block of its own, which has no guard and whose work is over at the end. */
int debug_memory_fill_own_block(const struct debug_filler *filler,
                                const struct gpumem_request *asked, void *pointer);

/* Before its free in `stream`, or after all work, as gpumem_free_sync: checks the guard, and fills it. Aborts the
 * process if the guard is damaged. A positive result is one that the free itself will have, too. */
enum debug_order { DEBUG_IN_STREAM, DEBUG_AFTER_ALL };
int debug_memory_end(const struct debug_filler *filler, const struct debug_memory *memory,
                     const struct stream_heap *heap, enum debug_order order, void *stream);
