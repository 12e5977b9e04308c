/* SPDX-License-Identifier: Apache-2.0 */
/* Files that others read while they are written anew. */
#pragma once

#include <stddef.h>

/* Puts a new file in the place of `path`, with mode 0644: whoever reads finds the old text or the new one,
 * whole. What is no regular file is left alone: -EEXIST. */
int atomic_file_write(const char *path, const char *text, size_t n_bytes);
