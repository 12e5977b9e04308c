/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace through the library's own heaps, sizes of blocks and budget, with a simulated clock and
 * simulated leases. It computes what the library would hold, hit and lease if a program made these calls.
 * The steps of a miss follow client/pool/alloc_slow.c and client/pool/empty_blocks.c, without their locks;
 * tests/live/trace/test_replay.c compares both. Blocks have exactly the requested size, while blocks from a
 * daemon's cache may be up to an eighth larger.
 *
 * Traces have no times, so each line takes US_PER_LINE by definition. The work before a recorded event ends
 * `lag_us` later; where the library waits for it, the replay waits, too. One thread. */
#pragma once

#include "base/size.h"
#include "bench/node.h"
#include "bench/trace.h"
#include "client/reserve/heap_set.h"

/* 10 us between calls, as in a program that launches kernels one by one. */
#define REPLAY_US_PER_LINE 10

/* The memory of an H200. */
#define REPLAY_POOL_BYTES (141 * GIB)

/* Pinned memory as the library handles it in programs with CUDA: each block alone, a free waits for the
 * work, and no block is returned, since unregistering waits for kernels. */
enum replay_memory { REPLAY_DEVICE, REPLAY_PINNED };

/* Idle blocks are found by the library's service thread, or by the threads that free. */
enum replay_service { REPLAY_THREAD, REPLAY_NO_THREAD };

/* Interval of the service thread's looks. */
#define REPLAY_LOOK_US 3000

struct replay_options {
        enum replay_memory memory;
        unsigned
                n_streams; /* allocations are dealt round-robin by id; 0: each is in its own stream */
        double lag_us;
        double us_per_line;
        uint64_t n_pool_bytes;
        uint32_t n_slots; /* leases that the process may have; 0: NODE_N_SLOTS */
        enum replay_service service;
        struct member *
                member; /* of a node, must outlive the replay; NULL: the replay has a node of its own */
};

struct replay_figures {
        uint64_t peak_live; /* bytes requested */
        uint64_t peak_reserved;
        uint64_t hits, misses;
        uint64_t leases, returns, moves;
        uint64_t waits;
        double wait_us;
        double driver_us; /* by the cost table of an H200 */
        uint32_t peak_blocks;
        double sum_live;   /* bytes requested, summed over the lines */
        double sum_pinned; /* bytes of blocks that no other process can take, summed over the lines */
};

struct replay;

/* The caller keeps the trace, which must outlive the replay. -ENOMEM. */
int replay_new(const struct trace *trace, const struct replay_options *options,
               struct replay **ret_replay);
struct replay *replay_free(struct replay *replay);

/* Plays one line; 1 after the last one. -ENOMEM; -E2BIG: no addresses or no memory is left; -EMFILE: no slot for a
 * lease; -EINVAL: the trace frees an unknown id. */
int replay_step(struct replay *replay);

/* Handles the daemon's messages. The library's service thread does this at any time, also while the program
 * plays no lines. */
void replay_hear(struct replay *replay);

/* Bytes requested now, and bytes reserved now. */
uint64_t replay_live(const struct replay *replay);
uint64_t replay_reserved(const struct replay *replay);

void replay_get(const struct replay *replay, struct replay_figures *ret_figures);
