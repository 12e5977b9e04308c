/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/file_stock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/core/fd_limits.h"

struct file_stock {
        file_stock_maker *make;
        size_t n_bytes;
        pthread_mutex_t lock; /* guards the fields below */
        struct stock_file files[FILE_STOCK_MAX];
        unsigned n;
};

int file_stock_new(file_stock_maker *make, size_t n_bytes, struct file_stock **ret_stock)
{
        struct file_stock *stock = calloc(1, sizeof(*stock));

        if (!stock)
                return -ENOMEM;
        stock->make = make;
        stock->n_bytes = n_bytes;
        pthread_mutex_init(&stock->lock, NULL);
        *ret_stock = stock;
        return 0;
}

void stock_file_deinit(struct stock_file *file)
{
        if (file->bytes)
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
        free(stock);
        return NULL;
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

        while (!is_full(stock) && stock->make(stock->n_bytes, &file) == 0) {
                if (fd_limits_are_few(file.fd)) {
                        stock_file_deinit(&file);
                        return;
                }
                put(stock, &file);
        }
}

bool file_stock_is_low(struct file_stock *stock)
{
        bool is_low;

        pthread_mutex_lock(&stock->lock);
        is_low = stock->n < FILE_STOCK_MAX / 2;
        pthread_mutex_unlock(&stock->lock);
        return is_low;
}

int file_stock_take(struct file_stock *stock, struct stock_file *ret_file)
{
        bool has_one;

        pthread_mutex_lock(&stock->lock);
        has_one = stock->n > 0;
        if (has_one)
                *ret_file = stock->files[--stock->n];
        pthread_mutex_unlock(&stock->lock);
        return has_one ? 0 : stock->make(stock->n_bytes, ret_file);
}
