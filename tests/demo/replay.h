/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace through libgpumem-client, with a pattern in every allocation. One thread. */
#pragma once

#include <stdint.h>

#include "bench/trace.h"

#define REPLAY_DEVICES_MAX 16

struct replay_options {
        const char *name; /* for messages */
        const char
                *meeting;   /* half-way MEETING.NAME is made, then MEETING.go waited for; or NULL */
        unsigned n_devices; /* allocations are distributed over so many */
        unsigned pinned_every; /* every n-th allocation is pinned; 0: none */
};

struct replay_result {
        uint64_t n_allocations;
        uint64_t n_pinned;
        uint64_t n_checked_bytes;
        uint64_t n_wrong_bytes;
        uint64_t n_live_peak_bytes;
        uint64_t n_hits;
        uint64_t n_misses;
};

/* Failures are printed on stderr; wrong bytes are a result, not a failure. */
int replay_run(const struct trace *trace, const struct replay_options *options,
               struct replay_result *ret_result);
