/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/reply_files.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/file_stock.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"

#define LOOK_MS 1000

/* A file is an item with its mapping and its pages. */
#define FILES_A_STEP 16

/* So much a file counts besides its bytes: as many files as there may be count as much as all their bytes. */
#define FILE_BYTES (REPLY_FILES_MAX_BYTES / REPLY_FILES_MAX)

/* Lives while it has a file. */
struct reply_owner {
        struct reply_bound *bound;
        struct ranked sum;
        struct reply_file_list files; /* the oldest first */
        struct reply_owner **place;   /* of the pointer to it */
};

static void count(struct reply_owner *owner, uint64_t n_bytes)
{
        ranking_set(&owner->bound->owners, &owner->sum, n_bytes);
}

static void end_if_unused(struct reply_owner *owner)
{
        if (!TAILQ_EMPTY(&owner->files))
                return;
        *owner->place = NULL;
        free(owner);
}

/* A client that copies rows meanwhile checks the first row again, which is cleared first. When the daemon ends, the client keeps
 * the file, and may still read it. */
static void take_memory_back(struct server *server, void *take_bytes, size_t n_bytes)
{
        if (server->stopping)
                (void)munmap(take_bytes, n_bytes);
        else
                page_sweeper_take_mapping(server->sweeper, take_bytes, n_bytes);
}

static void take_back(struct reply_file *file)
{
        struct server *server = file->session->server;
        struct reply_owner *owner = file->owner;

        take_memory_back(server, file->bytes, file->n_bytes);
        TAILQ_REMOVE(&server->reply_files.list, file, of_all);
        TAILQ_REMOVE(&file->session->reply_files, file, of_session);
        TAILQ_REMOVE(&owner->files, file, of_owner);
        owner->bound->n--;
        owner->bound->n_bytes -= file->n_bytes;
        if (owner->bound->newest == file)
                owner->bound->newest = NULL;
        count(owner, owner->sum.n_bytes - file->n_bytes - FILE_BYTES);
        file->session->n_reply_files--;
        free(file);
        end_if_unused(owner);
}

static bool is_over(const struct server *server, const struct reply_file *file)
{
        return file && server_now_ns(server) - file->since_ns >= REPLY_FILES_KEPT_S * NS_PER_S;
}

/* One file may be larger than all may be. */
static bool has_room(const struct reply_bound *bound)
{
        return bound->n <= 1 ||
               (bound->n <= REPLY_FILES_MAX && bound->n_bytes <= REPLY_FILES_MAX_BYTES);
}

/* The oldest file of the owner that has most, but not the newest of all, which is about to be read. */
static struct reply_file *find_too_many(const struct reply_bound *bound)
{
        struct ranked *most = ranking_first(&bound->owners);
        struct reply_file *oldest = TAILQ_FIRST(
                &CONTAINER_OF(most, struct reply_owner, sum)->files);

        if (oldest != bound->newest)
                return oldest;
        most = ranking_next(&bound->owners, most);
        return TAILQ_FIRST(&CONTAINER_OF(most, struct reply_owner, sum)->files);
}

/* NULL: none. */
static struct reply_file *find_unwanted(struct server *server)
{
        struct reply_file *oldest = TAILQ_FIRST(&server->reply_files.list);

        if (is_over(server, oldest))
                return oldest;
        if (!has_room(&server->reply_files.of_users))
                return find_too_many(&server->reply_files.of_users);
        if (!has_room(&server->reply_files.of_operators))
                return find_too_many(&server->reply_files.of_operators);
        return NULL;
}

static void take_back_later(struct server *server)
{
        payer_put(&server->scheduler.node, &server->reply_files.task);
}

/* The node pays. */
static void take_back_some(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, reply_files.task);

        for (unsigned i = 0; i < FILES_A_STEP; i++) {
                struct reply_file *file = find_unwanted(server);

                if (!file)
                        return;
                take_back(file);
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

int reply_files_open(struct server *server)
{
        TAILQ_INIT(&server->reply_files.list);
        ranking_init(&server->reply_files.of_users.owners);
        ranking_init(&server->reply_files.of_operators.owners);
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

/* Each session of an operator is an owner: a program that watches a node is not to push out what a person asks. */
static struct reply_owner **place_of(struct session *session)
{
        return authorization_is_operator(session) ? &session->replies
                                                  : account_replies(session->account);
}

static int get_owner(struct session *session, struct reply_owner **ret_owner)
{
        struct reply_owner **place = place_of(session);

        if (!*place) {
                *place = calloc(1, sizeof(**place));
                if (!*place)
                        return -ENOMEM;
                TAILQ_INIT(&(*place)->files);
                (*place)->place = place;
                (*place)->bound = authorization_is_operator(session)
                                          ? &session->server->reply_files.of_operators
                                          : &session->server->reply_files.of_users;
        }
        *ret_owner = *place;
        return 0;
}

/* A large file may need the room of many: what is left of them goes in the node's steps. It was made in more steps than
 * that takes. */
static void make_room(struct server *server, const struct reply_bound *bound)
{
        for (unsigned i = 0; i < FILES_A_STEP && !has_room(bound); i++)
                take_back(find_too_many(bound));
        if (!has_room(bound))
                take_back_later(server);
}

static void keep(struct session *session, struct reply_owner *owner, struct reply_file *file)
{
        struct server *server = session->server;

        file->session = session;
        file->owner = owner;
        file->since_ns = server_now_ns(server);
        TAILQ_INSERT_TAIL(&server->reply_files.list, file, of_all);
        TAILQ_INSERT_TAIL(&session->reply_files, file, of_session);
        TAILQ_INSERT_TAIL(&owner->files, file, of_owner);
        owner->bound->n++;
        owner->bound->n_bytes += file->n_bytes;
        owner->bound->newest = file;
        count(owner, owner->sum.n_bytes + file->n_bytes + FILE_BYTES);
        session->n_reply_files++;
        if (session->n_reply_files > REPLY_FILES_A_SESSION)
                take_back(TAILQ_FIRST(&session->reply_files));
        make_room(server, owner->bound);
        if (!uv_is_active((uv_handle_t *)&server->reply_files.timer))
                (void)uv_timer_start(&server->reply_files.timer, on_look, LOOK_MS, LOOK_MS);
}

static bool may_be_made(const struct server *server)
{
        return server->stopping || page_sweeper_keeps_up(server->sweeper);
}

static int keep_mapping(struct session *session, void *bytes, size_t n_bytes)
{
        struct reply_file *file;
        struct reply_owner *owner;
        int r;

        if (!may_be_made(session->server))
                return GPUMEM_E_TOO_MANY;
        file = malloc(sizeof(*file));
        if (!file)
                return -ENOMEM;
        r = get_owner(session, &owner);
        if (r) {
                free(file);
                return r;
        }
        file->bytes = bytes;
        file->n_bytes = n_bytes;
        keep(session, owner, file);
        return 0;
}

int reply_files_keep(struct session *session, int fd, size_t n_bytes, int *ret_fd)
{
        CLEANUP(closep)
        int reader = -1;
        void *bytes;
        int r = memfd_open_to_read(fd, &reader);

        if (!r && n_bytes)
                r = memfd_map_shared(fd, n_bytes, &bytes);
        if (r)
                return r;
        if (n_bytes) {
                r = keep_mapping(session, bytes, n_bytes);
                if (r) {
                        (void)munmap(bytes, n_bytes);
                        return r;
                }
        }
        *ret_fd = steal_fd(&reader);
        return 0;
}

/* With its pages. */
static int make(size_t n_bytes, struct stock_file *ret_file)
{
        CLEANUP(closep)
        int fd = -1, reader = -1;
        void *bytes;
        int r = memfd_new(REPLY_FILES_NAME, n_bytes, &fd);

        if (!r)
                r = memfd_open_to_read(fd, &reader);
        if (!r)
                r = memfd_map_shared(fd, n_bytes, &bytes);
        if (r)
                return r;
        memset(bytes, 0, n_bytes);
        *ret_file = (struct stock_file){bytes, n_bytes, steal_fd(&reader)};
        return 0;
}

static void fill_stock(void *argument)
{
        struct server *server = argument;

        file_stock_fill(server->stats_files);
}

int reply_files_open_stock(struct server *server, size_t n_bytes)
{
        int r = file_stock_new(make, n_bytes, &server->stats_files);

        if (r)
                return r;
        fill_stock(server);
        page_sweeper_set_after(server->sweeper, fill_stock, server);
        return 0;
}

int reply_files_make(struct session *session, const void *rows, size_t n_bytes, int *ret_fd)
{
        struct stock_file file;
        int r = file_stock_take(session->server->stats_files, &file);

        if (r)
                return r;
        assert(n_bytes <= file.n_bytes);
        memcpy(file.bytes, rows, n_bytes);
        r = keep_mapping(session, file.bytes, file.n_bytes);
        if (r) {
                stock_file_deinit(&file);
                return r;
        }
        *ret_fd = file.fd;
        return 0;
}
