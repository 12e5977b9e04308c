/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are made ahead of their use, all alike: boards of the clients that will come, and the files of answers with
 * statistics. To make a file and to map it takes the kernel a fifth of what the loop needs for a connection, and half
 * of what it needs for such an answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Made ahead at most: each has a file open. */
#define FILE_STOCK_MAX 8

/* A file of so many bytes, as the client is to have it, and the caller's mapping of it. */
struct stock_file {
        void *bytes;
        size_t n_bytes;
        int fd;
};

/* Makes one. Errors of the kernel's. Any thread. */
typedef int file_stock_maker(size_t n_bytes, struct stock_file *ret_file);

struct file_stock;

/* Of files of so many bytes. Nothing is made yet. -ENOMEM. */
int file_stock_new(file_stock_maker *make, size_t n_bytes, struct file_stock **ret_stock);

/* No other thread uses it any more. NULL is legal; returns NULL. */
struct file_stock *file_stock_free(struct file_stock *stock);

/* Makes files until there are FILE_STOCK_MAX, or few fds are left, or the kernel refuses one. Any thread. */
void file_stock_fill(struct file_stock *stock);

/* Whether it should be filled soon. Any thread. */
bool file_stock_is_low(struct file_stock *stock);

/* A file, which the caller unmaps and closes. It is made now if none is in stock. Errors of the kernel's. Any thread. */
int file_stock_take(struct file_stock *stock, struct stock_file *ret_file);

/* Unmaps and closes it. */
void stock_file_deinit(struct stock_file *file);
