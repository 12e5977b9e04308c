/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that are made ahead of the clients that will have them: to make a file and to map it takes the kernel a fifth of
 * what the loop needs for a connection. */
#pragma once

#include <stddef.h>

#include "proto/board.h"

/* Made ahead at most: each has a file open. */
#define BOARD_STOCK_MAX 8

/* A file of zeros behind its header, and the caller's mapping of it. */
struct board {
        void *bytes;
        size_t n_bytes;
        int fd;
};

struct board_stock;

/* All boards have this header, with their length in it. Nothing is made yet. -ENOMEM. */
int board_stock_new(const struct board_header *header, struct board_stock **ret_stock);

/* No other thread uses it any more. NULL is legal; returns NULL. */
struct board_stock *board_stock_free(struct board_stock *stock);

/* Makes boards until there are BOARD_STOCK_MAX, or few fds are left, or the kernel refuses one. Any thread. */
void board_stock_fill(struct board_stock *stock);

/* A board, which the caller unmaps and closes. It is made now if none is in stock. Errors of the kernel's. Any thread. */
int board_stock_take(struct board_stock *stock, struct board *ret_board);
