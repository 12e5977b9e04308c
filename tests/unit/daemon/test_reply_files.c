/* SPDX-License-Identifier: Apache-2.0 */
/* reply_files: how many files a step takes back when a large one needs the room of many, and whose they are. */
#include "daemon/server/session/reply_files.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/server/session/session.h"
#include "tests/suite.h"

#define N_SESSIONS   25
#define N_FILES      (N_SESSIONS * REPLY_FILES_A_SESSION)
#define SMALL_BYTES  (4 * KIB)
#define FILES_A_STEP 16
#define UID          1000

/* So many make more files than there may be. */
#define N_HOARDERS (REPLY_FILES_MAX / REPLY_FILES_A_SESSION + 8)

#define N_ALL (N_HOARDERS + 2)

static struct server *server;
static struct session *sessions[N_ALL];
static struct payer everyone;
static struct accounts accounts;

static void nothing(struct scheduler *of)
{
        (void)of;
}

static const struct scheduler_calls calls = {nothing, nothing};

static void belong_to(struct session *session, uint32_t uid, const char *container)
{
        session->account = account_unref(session->account);
        session->peer.uid = uid;
        (void)snprintf(session->peer.container, sizeof(session->peer.container), "%s", container);
        ck_assert_int_eq(account_ref(&accounts, uid, container, &session->account), 0);
}

/* What is taken back is unmapped at once while the daemon stops. */
static void start(void)
{
        server = calloc(1, sizeof(*server));
        server->stopping = true;
        ck_assert_int_eq(uv_loop_init(&server->loop), 0);
        ck_assert_int_eq(scheduler_open(&server->scheduler, &server->loop, &calls), 0);
        ck_assert_int_eq(reply_files_open(server), 0);
        payer_init_root(&everyone);
        accounts = (struct accounts){.everyone = &everyone};
        for (unsigned i = 0; i < N_ALL; i++) {
                sessions[i] = calloc(1, sizeof(*sessions[i]));
                sessions[i]->server = server;
                TAILQ_INIT(&sessions[i]->reply_files);
                belong_to(sessions[i], UID, "");
        }
}

static void stop(void)
{
        for (unsigned i = 0; i < N_ALL; i++) {
                reply_files_end(sessions[i]);
                (void)account_unref(sessions[i]->account);
                free(sessions[i]);
        }
        payer_deinit_root(&everyone);
        payer_take_out(&server->reply_files.task);
        reply_files_close(server);
        ck_assert_int_eq(uv_run(&server->loop, UV_RUN_DEFAULT), 0);
        scheduler_deinit(&server->scheduler);
        ck_assert_int_eq(uv_loop_close(&server->loop), 0);
        free(server);
}

static void keep(struct session *session, size_t n_bytes)
{
        CLEANUP(closep)
        int fd = -1, reader = -1;

        ck_assert_int_eq(memfd_new(REPLY_FILES_NAME, n_bytes, &fd), 0);
        ck_assert_int_eq(reply_files_keep(session, fd, n_bytes, &reader), 0);
        ck_assert_int_eq(fcntl(reader, F_GETFL) & O_ACCMODE, O_RDONLY);
}

static void keep_many(void)
{
        for (unsigned i = 0; i < N_FILES; i++)
                keep(sessions[i % N_SESSIONS], SMALL_BYTES);
        ck_assert_uint_eq(server->reply_files.of_users.n, N_FILES);
}

/* Returns whether there was one. */
static bool take_step(void)
{
        struct payer *payer;
        struct task *task = payer_next(&server->scheduler.everyone, &payer);

        if (!task)
                return false;
        ck_assert_ptr_eq(payer, &server->scheduler.node);
        task->step(task);
        payer_end_step(payer, 0);
        return true;
}

TEST(a_large_file_takes_the_room_of_many_in_steps)
{
        unsigned n;

        keep_many();
        keep(sessions[N_SESSIONS], REPLY_FILES_MAX_BYTES - SMALL_BYTES);
        n = server->reply_files.of_users.n;
        ck_assert_uint_eq(n, N_FILES + 1 - FILES_A_STEP);
        while (take_step()) {
                ck_assert_uint_ge(server->reply_files.of_users.n + FILES_A_STEP, n);
                n = server->reply_files.of_users.n;
        }
        ck_assert_uint_eq(server->reply_files.of_users.n, 2);
        ck_assert_uint_eq(server->reply_files.of_users.n_bytes, REPLY_FILES_MAX_BYTES);
}

/* A file that is larger than all may be stays until the next one. */
TEST(the_last_file_is_kept)
{
        keep_many();
        keep(sessions[N_SESSIONS], REPLY_FILES_MAX_BYTES + MIB);
        while (take_step())
                continue;
        ck_assert_uint_eq(server->reply_files.of_users.n, 1);
        keep(sessions[0], SMALL_BYTES);
        ck_assert_uint_eq(server->reply_files.of_users.n, 1);
        ck_assert_uint_eq(server->reply_files.of_users.n_bytes, SMALL_BYTES);
}

/* Sessions 2 and later, of one user. */
static void hoard(void)
{
        for (unsigned i = 0; i < N_HOARDERS * REPLY_FILES_A_SESSION; i++)
                keep(sessions[2 + i % N_HOARDERS], SMALL_BYTES);
        ck_assert_uint_eq(server->reply_files.of_users.n, REPLY_FILES_MAX);
}

/* One user could push out the rows of all others within 0.07 s. */
TEST(a_user_pushes_out_no_files_of_others)
{
        belong_to(sessions[0], UID + 1, "");
        belong_to(sessions[1], 0, "/container");
        for (unsigned i = 0; i < REPLY_FILES_A_SESSION; i++)
                keep(sessions[i % 2], SMALL_BYTES);
        for (unsigned i = 2; i < N_ALL; i++)
                belong_to(sessions[i], UID, "");
        hoard();
        ck_assert_uint_eq(sessions[0]->n_reply_files, REPLY_FILES_A_SESSION / 2);
        ck_assert_uint_eq(sessions[1]->n_reply_files, REPLY_FILES_A_SESSION / 2);
}

TEST(a_container_that_root_runs_pushes_out_none_of_another)
{
        belong_to(sessions[0], 0, "/other");
        keep(sessions[0], SMALL_BYTES);
        for (unsigned i = 2; i < N_ALL; i++)
                belong_to(sessions[i], 0, "/container");
        hoard();
        ck_assert_uint_eq(sessions[0]->n_reply_files, 1);
}

/* Even where it has most. */
TEST(what_operators_read_is_bounded_by_itself)
{
        belong_to(sessions[0], 0, "");
        sessions[1]->way = SESSION_AS_ADMIN;
        keep(sessions[0], REPLY_FILES_MAX_BYTES / 2);
        keep(sessions[1], REPLY_FILES_MAX_BYTES / 2);
        hoard();
        ck_assert_uint_eq(sessions[0]->n_reply_files, 1);
        ck_assert_uint_eq(sessions[1]->n_reply_files, 1);
        ck_assert_uint_eq(server->reply_files.of_operators.n, 2);
        for (unsigned i = 0; i < REPLY_FILES_A_SESSION; i++)
                keep(sessions[0], REPLY_FILES_MAX_BYTES / 2);
        ck_assert_uint_eq(sessions[1]->n_reply_files, 1);
}

TESTS_MAIN("reply_files", .start = start, .stop = stop)
