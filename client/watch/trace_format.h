/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a trace, made of records of calls: `a ID BYTES STREAM` and `f ID`, device memory in one file and pinned
 * memory in another. One thread.
 *
 * Records come in the order of their calls' ends. Memory that one thread frees may be another's before the first has
 * come to the end of its call: the allocation's record is then before the free's. An allocation at an address that is
 * still in use therefore says that a free is on its way, which is written at once and not again when it comes. */
#pragma once

#include <stdint.h>

#include "driver/stream.h"
#include "gpumem.h"

enum trace_record_kind { TRACE_RECORD_ALLOC, TRACE_RECORD_FREE, TRACE_RECORD_DISCONNECT };

struct trace_record {
        enum trace_record_kind kind;
        enum gpumem_kind memory;
        uint64_t owner; /* TRACE_RECORD_ALLOC, TRACE_RECORD_DISCONNECT: what ends all that it has */
        uint64_t address;
        uint64_t n_bytes;
        struct stream_key key;
};

/* As many ids as readers of traces take. */
#define TRACE_IDS_MAX UINT32_C(100000000)

struct trace_format;

/* Opens the file for device memory; that for pinned memory is made when it is needed:
 * PATH.pinned, and x.pinned.gz for x.gz. `about` is the first line's comment.
 * Errors: as trace_file_open. */
int trace_format_new(const char *path, const char *about, struct trace_format **ret_lines);

/* What the record says is written, in a while. A fault is logged, and the last that is written. */
int trace_format_take(struct trace_format *lines, const struct trace_record *record);

/* What was taken is in the files. */
int trace_format_flush(struct trace_format *lines);

/* Closes the files, with a last line that says what they hold, and what they lack. */
void trace_format_free(struct trace_format *lines, uint64_t n_lost);

/* For a forked child: closes its copies of the files. */
void trace_format_abandon(struct trace_format *lines);
