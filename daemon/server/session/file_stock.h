/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are made ahead of their use, all alike: boards of the clients that will come, and the files of answers with
 * statistics. To make a file and to map it takes the kernel a fifth of what the loop needs for a connection, and half
 * of what it needs for such an answer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Made ahead at most: each has a file open. */
#define FILE_STOCK_MAX 8

/* A file of so many bytes, and the caller's mapping of it. */
struct stock_file {
        void *bytes;
        size_t n_bytes;
        int fd;
};

struct file_stock;

/* Makes a file of so many zeros, as memfd_new. */
typedef int (*file_stock_maker)(const char *name, uint64_t n_bytes, int *ret_fd);

/* Its files have n_bytes: first those here, with their pages, and then zeros. The name outlives it. Nothing is made yet.
 * -ENOMEM. */
int file_stock_new(const char *name, file_stock_maker maker, const void *first,
                   size_t n_first_bytes, size_t n_bytes, struct file_stock **ret_stock);

/* No other thread uses it any more. NULL is legal; returns NULL. */
struct file_stock *file_stock_free(struct file_stock *stock);

/* Makes files until there are FILE_STOCK_MAX, or few fds are left, or the kernel refuses one. Any thread. */
void file_stock_fill(struct file_stock *stock);

/* A file, which the caller unmaps and closes. It is made now if none is in stock. Errors of the kernel's. Any thread. */
int file_stock_take(struct file_stock *stock, struct stock_file *ret_file);

/* Unmaps and closes it. */
void stock_file_deinit(struct stock_file *file);
