/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/file_stock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/server/core/fd_limits.h"

struct file_stock {
        const char *name;
        file_stock_maker maker;
        void *first; /* what each file begins with */
        size_t n_first_bytes, n_bytes;
        pthread_mutex_t lock; /* guards the fields below */
        struct stock_file files[FILE_STOCK_MAX];
        unsigned n;
};

int file_stock_new(const char *name, file_stock_maker maker, const void *first,
                   size_t n_first_bytes, size_t n_bytes, struct file_stock **ret_stock)
{
        struct file_stock *stock = calloc(1, sizeof(*stock));

        if (!stock)
                return -ENOMEM;
        stock->first = malloc(n_first_bytes);
        if (!stock->first) {
                free(stock);
                return -ENOMEM;
        }
        memcpy(stock->first, first, n_first_bytes);
        stock->name = name;
        stock->maker = maker;
        stock->n_first_bytes = n_first_bytes;
        stock->n_bytes = n_bytes;
        pthread_mutex_init(&stock->lock, NULL);
        *ret_stock = stock;
        return 0;
}

void stock_file_deinit(struct stock_file *file)
{
        (void)munmap(file->bytes, file->n_bytes);
        closep(&file->fd);
}

struct file_stock *file_stock_free(struct file_stock *stock)
{
        if (!stock)
                return NULL;
        while (stock->n)
                stock_file_deinit(&stock->files[--stock->n]);
        pthread_mutex_destroy(&stock->lock);
        free(stock->first);
        free(stock);
        return NULL;
}

static int make(const struct file_stock *stock, struct stock_file *ret_file)
{
        CLEANUP(closep)
        int fd = -1;
        void *bytes;
        int r = stock->maker(stock->name, stock->n_bytes, &fd);

        if (!r)
                r = memfd_map_shared(fd, stock->n_bytes, &bytes);
        if (r)
                return r;
        memcpy(bytes, stock->first, stock->n_first_bytes);
        *ret_file = (struct stock_file){bytes, stock->n_bytes, steal_fd(&fd)};
        return 0;
}

static bool is_full(struct file_stock *stock)
{
        bool is_full;

        pthread_mutex_lock(&stock->lock);
        is_full = stock->n == FILE_STOCK_MAX;
        pthread_mutex_unlock(&stock->lock);
        return is_full;
}

/* Another thread may have filled it meanwhile. */
static void put(struct file_stock *stock, struct stock_file *take_file)
{
        bool has_room;

        pthread_mutex_lock(&stock->lock);
        has_room = stock->n < FILE_STOCK_MAX;
        if (has_room)
                stock->files[stock->n++] = *take_file;
        pthread_mutex_unlock(&stock->lock);
        if (!has_room)
                stock_file_deinit(take_file);
}

void file_stock_fill(struct file_stock *stock)
{
        struct stock_file file;

        while (!is_full(stock) && make(stock, &file) == 0) {
                if (fd_limits_are_few(file.fd)) {
                        stock_file_deinit(&file);
                        return;
                }
                put(stock, &file);
        }
}

int file_stock_take(struct file_stock *stock, struct stock_file *ret_file)
{
        bool has_one;

        pthread_mutex_lock(&stock->lock);
        has_one = stock->n > 0;
        if (has_one)
                *ret_file = stock->files[--stock->n];
        pthread_mutex_unlock(&stock->lock);
        return has_one ? 0 : make(stock, ret_file);
}
