/* SPDX-License-Identifier: Apache-2.0 */
/* A file that text is written to, line by line; gzip-compressed when its name ends in .gz. One thread.
 *
 * A file that is there is overwritten, unless another process is writing it. In a file that is not
 * compressed only whole lines are found, also when the disk is full or the process is killed. zlib
 * is looked for when it is needed, so that programs that record nothing need it not. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trace_file;

/* -EBUSY: another process writes it. GPUMEM_E_UNSUPPORTED: zlib is not there. Else -errno. */
int trace_file_open(const char *path, struct trace_file **ret_file);

/* One or more whole lines. They are in the file when it is flushed, or earlier. */
int trace_file_write(struct trace_file *file, const char *lines, size_t n_bytes);

/* Of a compressed file, what can be written without harm to the compression. */
int trace_file_flush(struct trace_file *file);

/* The same, and a compressed file is whole: a reader finds an end. More may follow. */
int trace_file_complete(struct trace_file *file);

/* What was not flushed is, unless something has failed before. */
int trace_file_close(struct trace_file *file);

/* For a forked child, whose copy it is. */
void trace_file_abandon(struct trace_file *file);
