/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of fixed structs that the daemon sends in a memfd of fixed size. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Copies n_rows rows of n_row_bytes each from an fd that the daemon sent. The daemon's rows may be longer than ours
 * (a later version appended fields) but not shorter: -EPROTO. -ENODATA: the daemon has taken them back, since they
 * were not read for long, or others were requested since. The caller frees the copy. */
int rows_read(int fd, uint32_t n_rows, uint32_t n_sent_bytes, size_t n_row_bytes, void **ret_rows);
