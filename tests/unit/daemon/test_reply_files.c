/* SPDX-License-Identifier: Apache-2.0 */
/* reply_files: how many files a step takes back when a large one needs the room of many. */
#include "daemon/server/session/reply_files.h"

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

static struct server *server;
static struct session *sessions[N_SESSIONS + 1];

static void after_step(struct scheduler *scheduler)
{
        (void)scheduler;
}

/* What is taken back is unmapped at once while the daemon stops. */
static void start(void)
{
        server = calloc(1, sizeof(*server));
        server->stopping = true;
        ck_assert_int_eq(uv_loop_init(&server->loop), 0);
        ck_assert_int_eq(scheduler_open(&server->scheduler, &server->loop, after_step), 0);
        ck_assert_int_eq(reply_files_open(server), 0);
        for (unsigned i = 0; i <= N_SESSIONS; i++) {
                sessions[i] = calloc(1, sizeof(*sessions[i]));
                sessions[i]->server = server;
                TAILQ_INIT(&sessions[i]->reply_files);
        }
}

static void stop(void)
{
        for (unsigned i = 0; i <= N_SESSIONS; i++) {
                reply_files_end(sessions[i]);
                free(sessions[i]);
        }
        scheduler_take_out(&server->reply_files.task);
        reply_files_close(server);
        scheduler_close(&server->scheduler);
        ck_assert_int_eq(uv_run(&server->loop, UV_RUN_DEFAULT), 0);
        scheduler_deinit(&server->scheduler);
        ck_assert_int_eq(uv_loop_close(&server->loop), 0);
        free(server);
}

static void keep(struct session *session, size_t n_bytes)
{
        CLEANUP(closep)
        int fd = -1;

        ck_assert_int_eq(memfd_new(REPLY_FILES_NAME, n_bytes, &fd), 0);
        ck_assert_int_eq(reply_files_keep(session, fd, n_bytes), 0);
}

static void keep_many(void)
{
        for (unsigned i = 0; i < N_FILES; i++)
                keep(sessions[i % N_SESSIONS], SMALL_BYTES);
        ck_assert_uint_eq(server->reply_files.n, N_FILES);
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
        payer_unref(payer);
        return true;
}

TEST(a_large_file_takes_the_room_of_many_in_steps)
{
        unsigned n;

        keep_many();
        keep(sessions[N_SESSIONS], REPLY_FILES_MAX_BYTES - SMALL_BYTES);
        n = server->reply_files.n;
        ck_assert_uint_eq(n, N_FILES + 1 - FILES_A_STEP);
        while (take_step()) {
                ck_assert_uint_ge(server->reply_files.n + FILES_A_STEP, n);
                n = server->reply_files.n;
        }
        ck_assert_uint_eq(server->reply_files.n, 2);
        ck_assert_uint_eq(server->reply_files.n_bytes, REPLY_FILES_MAX_BYTES);
}

/* A file that is larger than all may be stays until the next one. */
TEST(the_last_file_is_kept)
{
        keep_many();
        keep(sessions[N_SESSIONS], REPLY_FILES_MAX_BYTES + MIB);
        while (take_step())
                continue;
        ck_assert_uint_eq(server->reply_files.n, 1);
        keep(sessions[0], SMALL_BYTES);
        ck_assert_uint_eq(server->reply_files.n, 1);
        ck_assert_uint_eq(server->reply_files.n_bytes, SMALL_BYTES);
}

TESTS_MAIN("reply_files", .start = start, .stop = stop)
