/* SPDX-License-Identifier: Apache-2.0 */
/* A trace through the library's own heaps, placement and budget, with a clock of its own and leases
 * that cost nothing but are counted: what the library would hold, hit and lease if a program made
 * these calls. The steps of a miss follow client/pool/alloc_slow.c and client/pool/trim.c, without their locks;
 * tests/live/trace/test_replay.c runs both beside each other. One block is leased at the size that was asked
 * for: what a daemon has cached may be up to an eighth larger.
 *
 * Time: traces have none, so a line takes US_PER_LINE by choice. An event that the library records is
 * over `lag_us` later; a library that waits for one waits here too. One thread. */
#pragma once

#include "base/size.h"
#include "bench/node.h"
#include "bench/trace.h"
#include "client/reserve/heap_set.h"

/* An allocation or a free each 10 us: what a program does that launches kernels one by one. */
#define REPLAY_US_PER_LINE 10

/* An H200's. */
#define REPLAY_POOL_BYTES (141 * GIB)

/* Pinned memory as the library has it for programs with CUDA: each block by itself, work waited for
 * before a free, and nothing returned, since unregistering waits for kernels. */
enum replay_memory { REPLAY_DEVICE, REPLAY_PINNED };

/* Who looks for idle blocks: the library's service thread, or those who free. */
enum replay_service { REPLAY_THREAD, REPLAY_NO_THREAD };

/* Between two looks of the service thread. */
#define REPLAY_LOOK_US 3000

struct replay_options {
        enum replay_memory memory;
        unsigned n_streams; /* allocations are dealt round-robin by id; 0 or 1: all on one */
        double lag_us;
        double us_per_line;
        uint64_t n_pool_bytes;
        enum replay_service service;
        struct member *member; /* of a node, alive for as long; NULL: alone on a node of its own */
};

struct replay_figures {
        uint64_t peak_live; /* bytes requested */
        uint64_t peak_reserved;
        uint64_t hits, misses;
        uint64_t leases, returns;
        uint64_t waits;
        double wait_us;
        double driver_us; /* by the table of costs of an H200 */
        uint32_t peak_blocks;
};

struct replay;

/* The trace stays the caller's and outlives it. -ENOMEM. */
int replay_new(const struct trace *trace, const struct replay_options *options,
               struct replay **ret_replay);
struct replay *replay_free(struct replay *replay);

/* One line; 1 after the last one. -ENOMEM, -E2BIG: there are no addresses for more;
 * -EINVAL: the trace frees what it does not have. */
int replay_step(struct replay *replay);

/* Its process hears what the daemon has told it, if anything: also while it runs no lines, as a thread of
 * the library's waits for it. */
void replay_hear(struct replay *replay);

/* Now: bytes requested, and reserved. */
uint64_t replay_live(const struct replay *replay);
uint64_t replay_reserved(const struct replay *replay);

void replay_get(const struct replay *replay, struct replay_figures *ret_figures);
