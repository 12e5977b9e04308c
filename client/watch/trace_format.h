/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a trace, made from records of calls: `a ID BYTES STREAM` and `f ID`, with device memory in one file
 * and pinned memory in another. One thread.
 *
 * Records come in the order in which calls took their slots, at their ends. Memory that one thread frees may be
 * allocated by another before the first call ends: then the allocation's record comes before the free's. So an
 * allocation at an address that is still in use means that a free is on its way. That free is written at once, and
 * not again when its record comes. */
#pragma once

#include <stdint.h>

#include "driver/stream.h"
#include "gpumem.h"

enum trace_record_kind { TRACE_RECORD_ALLOC, TRACE_RECORD_FREE, TRACE_RECORD_DISCONNECT };

struct trace_record {
        enum trace_record_kind kind;
        enum gpumem_kind memory;
        uint64_t owner; /* TRACE_RECORD_ALLOC, TRACE_RECORD_DISCONNECT: its client */
        uint64_t address;
        uint64_t n_bytes;
        struct stream_key key;
};

/* As many ids as readers of traces accept. */
#define TRACE_IDS_MAX UINT32_C(100000000)

struct trace_format;

/* Opens the file for device memory. The file for pinned memory is made when it is needed: PATH.pinned, or x.pinned.gz
 * for x.gz. `about` is the comment of the first line. Errors: as trace_file_open. */
int trace_format_new(const char *path, const char *about, struct trace_format **ret_lines);

/* Writes the record, with the next flush at the latest. A fault is logged, and nothing is written after it. */
int trace_format_take(struct trace_format *lines, const struct trace_record *record);

/* Flushes: all records are in the files. */
int trace_format_flush(struct trace_format *lines);

/* Closes the files, with a last line that tells what they hold, and what is missing. */
void trace_format_free(struct trace_format *lines, uint64_t n_lost);

/* For a forked child: closes its copies of the files. */
void trace_format_abandon(struct trace_format *lines);
