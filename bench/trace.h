/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation traces: `a ID BYTES STREAM` and `f ID` lines in program order, `#` for comments, with gzip
 * compression or without. One thread for each trace. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum trace_kind { TRACE_ALLOC, TRACE_FREE };

struct trace_event {
        enum trace_kind kind;
        uint32_t id;      /* 0 to n_ids - 1 */
        uint32_t stream;  /* of the allocation: 0 to n_streams - 1, by their first ones */
        uint64_t n_bytes; /* TRACE_ALLOC */
};

struct trace {
        struct trace_event *events;
        size_t n_events;
        uint32_t n_ids;
        uint32_t n_streams;
};

/* Reads and checks a whole trace: an allocation has a size and an unused id, and a free has an id in use.
 * Errors are printed on stderr, with the line. */
int trace_read(const char *path, struct trace *ret_trace);
void trace_deinit(struct trace *trace);
