/* SPDX-License-Identifier: Apache-2.0 */
/* event_log: whose rows an event pushes out. */
#include "daemon/server/session/event_log.h"

#include <string.h>

#include "daemon/server/session/session.h"
#include "tests/suite.h"

#define N_ROWS  32
#define N_OWN   4 /* of the one that is to keep them */
#define N_OTHER 100

static struct server *server;
static struct payer everyone;
static struct accounts accounts;

static void start(void)
{
        server = calloc(1, sizeof(*server));
        payer_init_root(&everyone);
        accounts = (struct accounts){.everyone = &everyone};
        ck_assert_int_eq(event_history_new(N_ROWS, 1, &server->history), 0);
}

static void stop(void)
{
        event_log_close(server);
        payer_deinit_root(&everyone);
        free(server);
}

/* An event of a process that has no client yet. */
static void note(uint32_t payer_uid, const char *container, uint32_t uid, pid_t pid)
{
        struct session session = {.server = server, .peer = {.uid = uid, .pid = pid}};

        ck_assert_int_eq(account_ref(&accounts, payer_uid, container, &session.account), 0);
        event_log_note_denial(&session, 1, "denied");
        (void)account_unref(session.account);
}

static unsigned n_rows_of(const char *container)
{
        const struct event_history_row *row = event_history_last(server->history);
        unsigned n = 0;

        for (; row; row = event_history_before(row))
                n += strcmp(event_history_whose(row)->realm, container) == 0;
        return n;
}

/* Root runs the containers of many people, and root in one has any number of uids. */
TEST(a_container_that_root_runs_pushes_out_no_rows_of_another)
{
        for (pid_t pid = 1; pid <= N_OWN; pid++) {
                note(0, "/quiet", 0, pid);
                note(0, "", 0, N_OWN + pid);
        }
        for (uint32_t uid = 0; uid < N_OTHER; uid++)
                note(0, "/loud", uid, 1000);
        ck_assert_uint_eq(n_rows_of("/quiet"), N_OWN);
        ck_assert_uint_eq(n_rows_of(""), N_OWN);
        ck_assert_uint_eq(n_rows_of("/loud"), N_ROWS - 2 * N_OWN);
}

/* A user's containers are one owner. */
TEST(a_users_containers_push_out_no_rows_of_another_user)
{
        for (pid_t pid = 1; pid <= N_OWN; pid++)
                note(1000, "", 1000, pid);
        for (uint32_t uid = 0; uid < N_OTHER; uid++)
                note(1001, uid % 2 ? "/one" : "/other", uid, 1000);
        ck_assert_uint_eq(n_rows_of(""), N_OWN);
}

TESTS_MAIN("event_log", .start = start, .stop = stop)
