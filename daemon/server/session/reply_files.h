/* SPDX-License-Identifier: Apache-2.0 */
/* Replies with rows are files. A client may keep the file, but its memory counts as the daemon's, so the
 * daemon takes that back: when the client has been sent REPLY_FILES_A_SESSION later ones, when its session ends, when
 * all files together are too many or too large (some in each step), and at the latest after REPLY_FILES_KEPT_S
 * seconds. A client that reads nothing for so long has been disconnected before. The file then keeps its size and is
 * all zero, the first row first.
 *
 * If they are too many or too large, the owner loses its oldest file that has most, by powers of two: a user, or a
 * container that root runs. So one that asks much pushes out its own files, not those that others are about to read. What
 * root and administrators read has a bound of its own, in which each connection is an owner.
 *
 * Clients can only read the files: to write to one would delay that its memory is taken back, which a thread does (page_sweeper.h).
 * Root, in a container also, can write all the same. While many files wait for that thread, no more are made. On the loop. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define REPLY_FILES_NAME      "gpumem-rows"
#define REPLY_FILES_KEPT_S    10
#define REPLY_FILES_A_SESSION 8
#define REPLY_FILES_MAX       2048
#define REPLY_FILES_MAX_BYTES (UINT64_C(256) << 20)

struct reply_file {
        TAILQ_ENTRY(reply_file) of_all;
        TAILQ_ENTRY(reply_file) of_session;
        TAILQ_ENTRY(reply_file) of_owner;
        struct session *session;
        struct reply_owner *owner;
        void *bytes;
        size_t n_bytes;
        uint64_t since_ns;
};

struct server;
struct session;

int reply_files_open(struct server *server);
void reply_files_close(struct server *server);

/* Keeps a memfd of so many bytes, with all rows in it, and gives the fd that the session is to be sent. -ENOMEM and other errors.
 * GPUMEM_E_TOO_MANY: a process delays that memory of earlier files is freed. */
int reply_files_keep(struct session *session, int fd, size_t n_bytes, int *ret_fd);

/* For reply_files_make, whose files have so many bytes. -ENOMEM. */
int reply_files_open_stock(struct server *server, size_t n_bytes);

/* Keeps a file that begins with these rows, for which the stock's have room. Errors of reply_files_keep. */
int reply_files_make(struct session *session, const void *rows, size_t n_bytes, int *ret_fd);

/* Takes back all files of a session that ends. */
void reply_files_end(struct session *session);
