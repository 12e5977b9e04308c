/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/board_stock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/server/core/fd_limits.h"

struct board_stock {
        struct board_header header;
        pthread_mutex_t lock; /* guards the fields below */
        struct board boards[BOARD_STOCK_MAX];
        unsigned n;
};

int board_stock_new(const struct board_header *header, struct board_stock **ret_stock)
{
        struct board_stock *stock = calloc(1, sizeof(*stock));

        if (!stock)
                return -ENOMEM;
        stock->header = *header;
        pthread_mutex_init(&stock->lock, NULL);
        *ret_stock = stock;
        return 0;
}

static void board_deinit(struct board *board)
{
        (void)munmap(board->bytes, board->n_bytes);
        closep(&board->fd);
}

struct board_stock *board_stock_free(struct board_stock *stock)
{
        if (!stock)
                return NULL;
        while (stock->n)
                board_deinit(&stock->boards[--stock->n]);
        pthread_mutex_destroy(&stock->lock);
        free(stock);
        return NULL;
}

static int make(const struct board_stock *stock, struct board *ret_board)
{
        CLEANUP(closep)
        int fd = -1;
        void *bytes;
        int r = memfd_new("gpumem-board", stock->header.n_bytes, &fd);

        if (!r)
                r = memfd_map_shared(fd, stock->header.n_bytes, &bytes);
        if (r)
                return r;
        memcpy(bytes, &stock->header, sizeof(stock->header));
        *ret_board = (struct board){bytes, stock->header.n_bytes, steal_fd(&fd)};
        return 0;
}

static bool is_full(struct board_stock *stock)
{
        bool is_full;

        pthread_mutex_lock(&stock->lock);
        is_full = stock->n == BOARD_STOCK_MAX;
        pthread_mutex_unlock(&stock->lock);
        return is_full;
}

/* Another thread may have filled it meanwhile. */
static void put(struct board_stock *stock, struct board *take_board)
{
        bool has_room;

        pthread_mutex_lock(&stock->lock);
        has_room = stock->n < BOARD_STOCK_MAX;
        if (has_room)
                stock->boards[stock->n++] = *take_board;
        pthread_mutex_unlock(&stock->lock);
        if (!has_room)
                board_deinit(take_board);
}

void board_stock_fill(struct board_stock *stock)
{
        struct board board;

        while (!is_full(stock) && make(stock, &board) == 0) {
                if (fd_limits_are_few(board.fd)) {
                        board_deinit(&board);
                        return;
                }
                put(stock, &board);
        }
}

int board_stock_take(struct board_stock *stock, struct board *ret_board)
{
        bool has_one;

        pthread_mutex_lock(&stock->lock);
        has_one = stock->n > 0;
        if (has_one)
                *ret_board = stock->boards[--stock->n];
        pthread_mutex_unlock(&stock->lock);
        return has_one ? 0 : make(stock, ret_board);
}
