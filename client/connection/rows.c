/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/rows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/memfd.h"

static bool is_zero(const char *bytes, size_t n_bytes)
{
        return !*bytes && memcmp(bytes, bytes + 1, n_bytes - 1) == 0;
}

/* Checks the first row last: when the daemon takes rows back, it clears that one first. */
static int copy(const char *sent, uint32_t n_rows, uint32_t n_sent_bytes, size_t n_row_bytes,
                char *rows)
{
        for (uint32_t i = 0; i < n_rows; i++)
                memcpy(rows + i * n_row_bytes, sent + (size_t)i * n_sent_bytes, n_row_bytes);
        __sync_synchronize();
        return is_zero(sent, n_sent_bytes) ? -ENODATA : 0;
}

int rows_read(int fd, uint32_t n_rows, uint32_t n_sent_bytes, size_t n_row_bytes, void **ret_rows)
{
        size_t n_bytes = (size_t)n_rows * n_sent_bytes;
        CLEANUP(freep)
        char *rows = NULL;
        const char *sent;
        int r;

        if (n_sent_bytes < n_row_bytes || n_rows == 0)
                return -EPROTO;
        r = memfd_check(fd, n_bytes);
        if (!r)
                r = memfd_map_read(fd, n_bytes, (const void **)&sent);
        if (r)
                return r;
        rows = calloc(n_rows, n_row_bytes);
        r = rows ? copy(sent, n_rows, n_sent_bytes, n_row_bytes, rows) : -ENOMEM;
        (void)munmap((void *)sent, n_bytes);
        if (!r)
                *ret_rows = steal_ptr(rows);
        return r;
}
