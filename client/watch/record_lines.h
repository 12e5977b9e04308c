/* The lines of a trace, made of records of calls: `a ID BYTES STREAM` and `f ID`, device memory in
 * one file and pinned memory in another. One thread.
 *
 * Records come in the order of their calls' ends. Memory that one thread frees may be another's
 * before the first has come to the end of its call: the allocation's record is then before the free's.
 * An allocation at an address that is still in use therefore says that a free is on its way, which is
 * written at once and not again when it comes. */
#pragma once

#include <stdint.h>

#include "driver/stream.h"
#include "gpumem.h"

enum record_kind { RECORD_ALLOC, RECORD_FREE, RECORD_DISCONNECT };

struct record {
        enum record_kind kind;
        enum gpumem_kind memory;
        uint64_t owner; /* RECORD_ALLOC, RECORD_DISCONNECT: what ends all that it has */
        uint64_t address;
        uint64_t n_bytes;
        struct stream_key key;
};

/* As many ids as readers of traces take. */
#define RECORD_IDS_MAX UINT32_C(100000000)

struct record_lines;

/* Opens the file for device memory; that for pinned memory is made when it is needed:
 * PATH.pinned, and x.pinned.gz for x.gz. `about` is the first line's comment.
 * Errors: as record_file_open. */
int record_lines_new(const char *path, const char *about, struct record_lines **ret_lines);

/* What the record says is written, in a while. A fault is logged, and the last that is written. */
int record_lines_take(struct record_lines *lines, const struct record *record);

/* What was taken is in the files. */
int record_lines_flush(struct record_lines *lines);

/* Closes the files, with a last line that says what they hold, and what they lack. */
void record_lines_free(struct record_lines *lines, uint64_t n_lost);

/* For a forked child: closes its copies of the files. */
void record_lines_abandon(struct record_lines *lines);
