/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a client's board (proto/board.h). The daemon makes it without pages: they are the client's memory.
 *
 * The board counts if the client says in its HELLO that it seals it, and has done so, with all its pages, before it first asks for
 * memory: no process can then take a page away. A look at a page that is gone waits in the kernel while a hole is punched, as
 * long as the client that does so gets no CPU.
 *
 * What is sealed can no longer be mapped for writing. So the daemon maps the board of a client that says so before the client
 * has it. To unmap a file would wait for a hole, too, and make the daemon's other mappings wait. So a thread first seals a file
 * that is not sealed when its session ends, which a process can delay, and another thread unmaps those that are. What cannot be
 * sealed, since a client has forbidden that, stays mapped until the daemon ends. On the loop. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include "daemon/backing/worker/errand_thread.h"
#include "daemon/server/session/file_stock.h"

struct server;

struct board_file {
        struct server *server;
        struct stock_file file; /* its bytes are NULL if the board never counts */
        bool is_sent;           /* a client may have it */
        bool counts;
        struct errand end;            /* on a thread */
        bool goes_soon;               /* counts among those that do */
        bool stays;                   /* for good */
        TAILQ_ENTRY(board_file) link; /* of those that the threads hand over */
};

TAILQ_HEAD(board_file_list, board_file);

/* No file; board_file_end is legal for it. */
#define BOARD_FILE_NULL ((struct board_file){.file = {.fd = -1}})

/* Boards are made ahead, the first ones now. on_gone is called for each that board_file_end has given to a thread, but for those
 * that stay: for them when the daemon ends. -ENOMEM and other errors. */
int board_files_open(struct server *server, void (*on_gone)(struct board_file *board));

/* All sessions have ended. If a thread is left behind (abandoned_threads.h), what it uses stays. */
void board_files_close(struct server *server);

/* Makes the file for a WELCOME. will_be_sealed: the client says so. Errors of the kernel's. */
int board_file_init(struct server *server, bool will_be_sealed, struct board_file *ret_board);

/* The client asks for memory. From now on the board counts, or it never does. */
void board_file_check(struct board_file *board);

/* BOARD_FILE_IS_GONE: on_gone is not called. Else it is used until then, for a moment, or as long as a process likes. */
enum board_file_outcome { BOARD_FILE_IS_GONE, BOARD_FILE_GOES_SOON, BOARD_FILE_GOES };
enum board_file_outcome board_file_end(struct board_file *board);
