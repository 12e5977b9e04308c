/* SPDX-License-Identifier: Apache-2.0 */
/* Replies with rows are files, which clients may keep for as long as they like while their memory
 * is the daemon's. So it is taken back: when its client has been sent REPLY_FILES_A_SESSION others since, when
 * its session ends, when all together are too many or too large, and after REPLY_FILES_KEPT_S seconds at
 * the latest, in which whoever reads nothing has been sent away. The file keeps its size, and is all zero
 * then, its first row before the others. On the loop. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define REPLY_FILES_KEPT_S    10
#define REPLY_FILES_A_SESSION 8
#define REPLY_FILES_MAX       2048
#define REPLY_FILES_MAX_BYTES (UINT64_C(256) << 20)

struct reply_file {
        TAILQ_ENTRY(reply_file) of_all;
        TAILQ_ENTRY(reply_file) of_session;
        struct session *session;
        void *bytes;
        size_t n_bytes;
        uint64_t since_ns;
};

struct server;
struct session;

int reply_files_open(struct server *server);
void reply_files_close(struct server *server);

/* A file with those rows for the session; -ENOMEM and the like. */
int reply_files_make(struct session *session, const void *rows, size_t n_bytes, int *ret_fd);

/* Memory that was shared with a client. When the daemon ends it is left to it: what goes on without a daemon may
 * need it, and what is read late is read all the same. */
void reply_files_take_back(struct server *server, void *take_bytes, size_t n_bytes);

/* The session ends. */
void reply_files_end(struct session *session);
