#include "client/rows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/memfd.h"

int rows_read(int fd, uint32_t n_rows, uint32_t n_sent_bytes, size_t n_row_bytes, void **ret_rows)
{
        size_t n_bytes = (size_t)n_rows * n_sent_bytes;
        const char *sent;
        char *rows;
        int r;

        if (n_sent_bytes < n_row_bytes || n_rows == 0)
                return -EPROTO;
        r = memfd_check(fd, n_bytes);
        if (!r)
                r = memfd_map_read(fd, n_bytes, (const void **)&sent);
        if (r)
                return r;
        rows = calloc(n_rows, n_row_bytes);
        for (uint32_t i = 0; rows && i < n_rows; i++)
                memcpy(rows + i * n_row_bytes, sent + (size_t)i * n_sent_bytes, n_row_bytes);
        (void)munmap((void *)sent, n_bytes);
        if (!rows)
                return -ENOMEM;
        *ret_rows = rows;
        return 0;
}
