/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/board_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/server/core/server_state.h"
#include "proto/board.h"

#define NAME "gpumem-board"

/* Boards that have gone, whose sessions end in one step. */
#define BOARDS_A_STEP 16

/* With more that are to be unmapped, the thread does not keep up. */
#define BOARDS_SOON_MAX 64

/* The threads hand boards over here. */
struct board_files {
        struct file_stock *mapped, *unmapped;
        struct errand_thread *sealing, *unmapping;
        struct errand fill;   /* on the second, */
        atomic_bool fills;    /* which has it */
        pthread_mutex_t lock; /* guards the list */
        struct board_file_list gone;
        struct board_file_list staying; /* the loop's, */
        unsigned n_soon;                /* and this, too */
        struct wake wake;
        void (*on_gone)(struct board_file *board);
};

static int make_unmapped(size_t n_bytes, struct stock_file *ret_file)
{
        struct stock_file file = {.n_bytes = n_bytes};
        int r = memfd_new_to_keep(NAME, n_bytes, &file.fd);

        if (!r)
                *ret_file = file;
        return r;
}

static int make_mapped(size_t n_bytes, struct stock_file *ret_file)
{
        CLEANUP(closep)
        int fd = -1;
        void *bytes;
        int r = memfd_new_to_keep(NAME, n_bytes, &fd);

        if (!r)
                r = memfd_map_shared(fd, n_bytes, &bytes);
        if (!r)
                *ret_file = (struct stock_file){bytes, n_bytes, steal_fd(&fd)};
        return r;
}

static void fill_stocks(struct board_files *files)
{
        file_stock_fill(files->mapped);
        file_stock_fill(files->unmapped);
}

static void run_fill(struct errand *errand, void *argument)
{
        struct board_files *files = argument;

        (void)errand;
        atomic_store(&files->fills, false);
        fill_stocks(files);
}

/* Where many come, and few go. */
static void refill(struct board_files *files, struct file_stock *stock)
{
        if (!file_stock_is_low(stock) || atomic_exchange(&files->fills, true))
                return;
        files->fill.run = run_fill;
        errand_thread_put(files->unmapping, &files->fill);
}

static void hand_over(struct board_files *files, struct board_file *board)
{
        pthread_mutex_lock(&files->lock);
        TAILQ_INSERT_TAIL(&files->gone, board, link);
        pthread_mutex_unlock(&files->lock);
        wake_send(&files->wake);
}

static void let_go(struct errand *errand, void *argument)
{
        struct board_file *board = CONTAINER_OF(errand, struct board_file, end);
        struct board_files *files = argument;

        stock_file_deinit(&board->file);
        hand_over(files, board);
        fill_stocks(files);
}

/* A client may have forbidden all seals. */
static void seal_and_let_go(struct errand *errand, void *argument)
{
        struct board_file *board = CONTAINER_OF(errand, struct board_file, end);
        struct board_files *files = argument;

        (void)memfd_keep_pages(board->file.fd);
        if (memfd_pages_are_kept(board->file.fd)) {
                errand->run = let_go;
                errand_thread_put(files->unmapping, errand);
                return;
        }
        board->stays = true;
        hand_over(files, board);
}

static struct board_file *take_gone(struct board_files *files)
{
        struct board_file *board;

        pthread_mutex_lock(&files->lock);
        board = TAILQ_FIRST(&files->gone);
        if (board)
                TAILQ_REMOVE(&files->gone, board, link);
        pthread_mutex_unlock(&files->lock);
        return board;
}

static void on_wake(struct wake *wake)
{
        struct board_files *files = CONTAINER_OF(wake, struct board_files, wake);

        for (unsigned i = 0; i < BOARDS_A_STEP; i++) {
                struct board_file *board = take_gone(files);

                if (!board)
                        return;
                files->n_soon -= board->goes_soon;
                if (board->stays)
                        TAILQ_INSERT_TAIL(&files->staying, board, link);
                else
                        files->on_gone(board);
        }
        wake_send(wake);
}

static int open_threads(struct board_files *files)
{
        const struct errand_rules sealing = {
                .name = "gpumemd-seal",
                .why_late = "a process delays that its board is sealed; the kernel unmaps it when "
                            "the daemon ends",
                .argument = files};
        const struct errand_rules unmapping = {
                .name = "gpumemd-unmap",
                .why_late = "a process delays that its board is unmapped; the kernel does that "
                            "when the daemon ends",
                .argument = files};
        int r = errand_thread_new(&unmapping, &files->unmapping);

        return r ? r : errand_thread_new(&sealing, &files->sealing);
}

static size_t n_board_bytes(const struct server *server)
{
        return board_bytes(server->n_pools, server->n_slots);
}

int board_files_open(struct server *server, void (*on_gone)(struct board_file *board))
{
        struct board_files *files = calloc(1, sizeof(*files));
        int r;

        if (!files)
                return -ENOMEM;
        server->boards = files;
        TAILQ_INIT(&files->gone);
        TAILQ_INIT(&files->staying);
        pthread_mutex_init(&files->lock, NULL);
        files->on_gone = on_gone;
        files->wake = WAKE_NULL;
        r = file_stock_new(make_mapped, n_board_bytes(server), &files->mapped);
        if (!r)
                r = file_stock_new(make_unmapped, n_board_bytes(server), &files->unmapped);
        if (!r)
                r = wake_open(&files->wake, &server->loop, on_wake);
        if (!r)
                r = open_threads(files);
        if (!r)
                fill_stocks(files);
        return r;
}

static void end_all(struct board_files *files, struct board_file_list *list)
{
        while (!TAILQ_EMPTY(list)) {
                struct board_file *board = TAILQ_FIRST(list);

                TAILQ_REMOVE(list, board, link);
                closep(&board->file.fd);
                files->on_gone(board);
        }
}

/* The first thread hands over to the second, also when it is left behind. */
void board_files_close(struct server *server)
{
        struct board_files *files = server->boards;

        if (!files)
                return;
        files->sealing = errand_thread_free(files->sealing);
        if (abandoned_threads_any())
                return;
        files->unmapping = errand_thread_free(files->unmapping);
        if (abandoned_threads_any())
                return;
        end_all(files, &files->gone);
        end_all(files, &files->staying);
        wake_deinit(&files->wake);
        file_stock_free(files->mapped);
        file_stock_free(files->unmapped);
        pthread_mutex_destroy(&files->lock);
        free(files);
        server->boards = NULL;
}

int board_file_init(struct server *server, bool will_be_sealed, struct board_file *ret_board)
{
        struct board_files *files = server->boards;
        struct file_stock *stock = will_be_sealed ? files->mapped : files->unmapped;
        struct stock_file file;
        int r = file_stock_take(stock, &file);

        if (r)
                return r;
        refill(files, stock);
        *ret_board = (struct board_file){.server = server, .file = file};
        return 0;
}

void board_file_check(struct board_file *board)
{
        board->counts = board->file.bytes && memfd_pages_are_kept(board->file.fd) &&
                        memfd_has_pages(board->file.bytes, board->file.n_bytes);
}

enum board_file_outcome board_file_end(struct board_file *board)
{
        struct board_files *files;

        if (board->file.fd < 0)
                return BOARD_FILE_IS_GONE;
        if (!board->is_sent) {
                stock_file_deinit(&board->file);
                return BOARD_FILE_IS_GONE;
        }
        files = board->server->boards;
        if (board->file.bytes && !memfd_pages_are_kept(board->file.fd)) {
                board->end.run = seal_and_let_go;
                errand_thread_put(files->sealing, &board->end);
                return BOARD_FILE_GOES;
        }
        board->goes_soon = files->n_soon < BOARDS_SOON_MAX;
        files->n_soon += board->goes_soon;
        board->end.run = let_go;
        errand_thread_put(files->unmapping, &board->end);
        return board->goes_soon ? BOARD_FILE_GOES_SOON : BOARD_FILE_GOES;
}
