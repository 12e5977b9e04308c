/* SPDX-License-Identifier: Apache-2.0 */
/* Files that other programs read while they are replaced. */
#pragma once

#include <stddef.h>

/* Puts a new file in the place of `path`, with mode 0644: a reader finds the old text or the new one,
 * whole. -EEXIST: it is not a regular file, and was not changed. */
int atomic_file_write(const char *path, const char *text, size_t n_bytes);

/* The same, but owner and mode of a file that is there stay. */
int atomic_file_replace(const char *path, const char *text, size_t n_bytes);
