/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/reply_files.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "daemon/server/session/session.h"

#define LOOK_MS 1000

/* A file is an item with its mapping and its pages. */
#define FILES_A_STEP 16

/* A client that copies rows meanwhile checks the first row again, which is cleared first. */
static void take_back(struct reply_file *file)
{
        struct server *server = file->session->server;

        reply_files_take_back(server, file->bytes, file->n_bytes);
        TAILQ_REMOVE(&server->reply_files.list, file, of_all);
        TAILQ_REMOVE(&file->session->reply_files, file, of_session);
        server->reply_files.n--;
        server->reply_files.n_bytes -= file->n_bytes;
        file->session->n_reply_files--;
        free(file);
}

static bool is_over(const struct server *server, const struct reply_file *file)
{
        return file && server_now_ns(server) - file->since_ns >= REPLY_FILES_KEPT_S * NS_PER_S;
}

/* There is room for one more file of so many bytes. One file may be larger than all may be. */
static bool has_room(const struct server *server, unsigned n, size_t n_bytes)
{
        if (server->reply_files.n + n > REPLY_FILES_MAX)
                return false;
        return server->reply_files.n + n <= 1 ||
               server->reply_files.n_bytes + n_bytes <= REPLY_FILES_MAX_BYTES;
}

static void take_back_later(struct server *server)
{
        scheduler_put(&server->scheduler, &server->scheduler.node, &server->reply_files.task);
}

/* The node pays. */
static void take_back_some(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, reply_files.task);

        for (unsigned i = 0; i < FILES_A_STEP; i++) {
                struct reply_file *oldest = TAILQ_FIRST(&server->reply_files.list);

                if (!is_over(server, oldest) && has_room(server, 0, 0))
                        return;
                take_back(oldest);
        }
        take_back_later(server);
}

static void on_look(uv_timer_t *timer)
{
        struct server *server = timer->data;

        if (is_over(server, TAILQ_FIRST(&server->reply_files.list)))
                take_back_later(server);
        else if (TAILQ_EMPTY(&server->reply_files.list))
                (void)uv_timer_stop(timer);
}

void reply_files_take_back(struct server *server, void *take_bytes, size_t n_bytes)
{
        if (server->stopping)
                (void)munmap(take_bytes, n_bytes);
        else
                page_sweeper_take_mapping(server->sweeper, take_bytes, n_bytes);
}

int reply_files_open(struct server *server)
{
        TAILQ_INIT(&server->reply_files.list);
        server->reply_files.task.step = take_back_some;
        server->reply_files.timer.data = server;
        return uv_timer_init(&server->loop, &server->reply_files.timer);
}

void reply_files_close(struct server *server)
{
        uv_close((uv_handle_t *)&server->reply_files.timer, NULL);
}

void reply_files_end(struct session *session)
{
        struct reply_file *file;

        while ((file = TAILQ_FIRST(&session->reply_files)))
                take_back(file);
}

/* A large file may need the room of many: what is left of them goes in the node's steps. It was made in more steps than
 * that takes. */
static void make_room(struct session *session, size_t n_bytes)
{
        struct server *server = session->server;

        if (session->n_reply_files == REPLY_FILES_A_SESSION)
                take_back(TAILQ_FIRST(&session->reply_files));
        for (unsigned i = 0; i < FILES_A_STEP && !has_room(server, 1, n_bytes); i++)
                take_back(TAILQ_FIRST(&server->reply_files.list));
        if (!has_room(server, 1, n_bytes))
                take_back_later(server);
}

static void keep(struct session *session, struct reply_file *file)
{
        struct server *server = session->server;

        make_room(session, file->n_bytes);
        file->session = session;
        file->since_ns = server_now_ns(server);
        TAILQ_INSERT_TAIL(&server->reply_files.list, file, of_all);
        TAILQ_INSERT_TAIL(&session->reply_files, file, of_session);
        server->reply_files.n++;
        server->reply_files.n_bytes += file->n_bytes;
        session->n_reply_files++;
        if (!uv_is_active((uv_handle_t *)&server->reply_files.timer))
                (void)uv_timer_start(&server->reply_files.timer, on_look, LOOK_MS, LOOK_MS);
}

int reply_files_keep(struct session *session, int fd, size_t n_bytes)
{
        CLEANUP(freep)
        struct reply_file *file = malloc(sizeof(*file));
        int r;

        if (!file)
                return -ENOMEM;
        r = memfd_map_shared(fd, n_bytes, &file->bytes);
        if (r)
                return r;
        file->n_bytes = n_bytes;
        keep(session, steal_ptr(file));
        return 0;
}

int reply_files_make(struct session *session, const void *rows, size_t n_bytes, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        int r = memfd_new(REPLY_FILES_NAME, n_bytes, &fd);

        if (!r && n_bytes)
                r = memfd_write(fd, rows, n_bytes, 0);
        if (!r && n_bytes)
                r = reply_files_keep(session, fd, n_bytes);
        if (r)
                return r;
        *ret_fd = steal_fd(&fd);
        return 0;
}
