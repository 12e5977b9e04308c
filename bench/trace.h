/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation traces: `a ID BYTES STREAM` and `f ID` lines in program order, `#` for comments,
 * gzip-compressed or not. One thread a trace. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum trace_kind { TRACE_ALLOC, TRACE_FREE };

struct trace_event {
        enum trace_kind kind;
        uint32_t id; /* 0 to n_ids - 1 */
        uint32_t stream;
        uint64_t n_bytes; /* TRACE_ALLOC */
};

struct trace {
        struct trace_event *events;
        size_t n_events;
        uint32_t n_ids;
};

/* Reads a whole trace, in which an allocation has a size and an id that is free, and what is freed is
 * allocated. Failures are told on stderr, with the line. */
int trace_read(const char *path, struct trace *ret_trace);
void trace_deinit(struct trace *trace);
