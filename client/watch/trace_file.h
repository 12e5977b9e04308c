/* SPDX-License-Identifier: Apache-2.0 */
/* A file to which text is written, line by line; gzip-compressed if its name ends in .gz. One thread.
 *
 * An existing file is overwritten, unless another process is writing it. A file that is not compressed has whole
 * lines only, even if the disk is full or the process is killed. zlib is loaded when it is needed, so that programs
 * that record nothing do not need it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trace_file;

/* -EBUSY: another process writes it. GPUMEM_E_UNSUPPORTED: zlib is missing. Else -errno. */
int trace_file_open(const char *path, struct trace_file **ret_file);

/* Writes one or more whole lines. They are in the file after a flush, or earlier. */
int trace_file_write(struct trace_file *file, const char *lines, size_t n_bytes);

/* Flushes. Of a compressed file, only what can be written without harm to the compression. */
int trace_file_flush(struct trace_file *file);

/* The same, and makes a compressed file complete: a reader finds an end. More may follow. */
int trace_file_complete(struct trace_file *file);

/* Flushes the rest, unless a write has failed before, and closes. */
int trace_file_close(struct trace_file *file);

/* Closes a forked child's copy. */
void trace_file_abandon(struct trace_file *file);
