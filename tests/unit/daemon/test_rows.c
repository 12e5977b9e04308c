/* SPDX-License-Identifier: Apache-2.0 */
/* rows: how much the lists of one owner may hold while they are made. */
#include "daemon/server/lists/rows.h"

#include <fcntl.h>
#include <semaphore.h>

#include "daemon/backing/worker/errand_thread.h"
#include "daemon/backing/worker/fd_closer.h"
#include "tests/suite.h"

#define ROW_BYTES 4096
#define N_ROWS    (ROWS_MAX_BYTES_AN_OWNER / ROW_BYTES)
#define UID       1000

enum { FIRST, SECOND, OTHER_USER, OPERATOR, N_LISTS };

static struct server *server;
static struct payer everyone;
static struct accounts accounts;
static struct session sessions[N_LISTS];
static struct row_buffer lists[N_LISTS];
static sem_t may_go_on;

static void begin(unsigned at, uint32_t uid)
{
        sessions[at] = (struct session){.server = server, .peer = {.uid = uid}};
        ck_assert_int_eq(account_ref(&accounts, uid, "", &sessions[at].account), 0);
        row_buffer_init(&lists[at], &sessions[at], ROW_BYTES);
}

static void start(void)
{
        server = calloc(1, sizeof(*server));
        payer_init_root(&everyone);
        accounts = (struct accounts){.everyone = &everyone};
        begin(FIRST, UID);
        begin(SECOND, UID);
        begin(OTHER_USER, UID + 1);
        begin(OPERATOR, 0);
}

static void stop(void)
{
        for (unsigned i = 0; i < N_LISTS; i++) {
                row_buffer_clear(&lists[i]);
                (void)account_unref(sessions[i].account);
        }
        payer_deinit_root(&everyone);
        free(server);
}

/* Returns how many of n rows there was room for. */
static unsigned add(unsigned at, unsigned n)
{
        static const char row[ROW_BYTES];
        unsigned n_added = 0;

        while (n_added < n && row_buffer_add(&lists[at], row))
                n_added++;
        return n_added;
}

TEST(the_lists_of_a_user_hold_so_much_together)
{
        ck_assert_uint_eq(add(FIRST, N_ROWS - 8), N_ROWS - 8);
        ck_assert_uint_eq(add(SECOND, 16), 8);
        ck_assert(lists[SECOND].failed && lists[SECOND].is_beyond);
        ck_assert_uint_eq(add(OTHER_USER, 16), 16);
        ck_assert_uint_eq(add(OPERATOR, 2 * N_ROWS), 2 * N_ROWS);
        row_buffer_clear(&lists[FIRST]);
        row_buffer_clear(&lists[SECOND]);
        ck_assert_uint_eq(add(SECOND, 16), 16);
}

TEST(what_a_list_needs_besides_counts_too)
{
        void *zeros;

        ck_assert_uint_eq(add(FIRST, N_ROWS - 8), N_ROWS - 8);
        ck_assert_ptr_null(row_buffer_calloc(&lists[SECOND], 9, ROW_BYTES));
        ck_assert(lists[SECOND].failed && lists[SECOND].is_beyond);
        row_buffer_clear(&lists[SECOND]);
        zeros = row_buffer_calloc(&lists[SECOND], 8, ROW_BYTES);
        ck_assert_ptr_nonnull(zeros);
        free(zeros);
        ck_assert_uint_eq(add(SECOND, 1), 0);
}

static void wait_for(struct errand *errand, void *argument)
{
        (void)errand;
        (void)argument;
        (void)sem_wait(&may_go_on);
}

/* The kernel frees the pages of its file, if the client has not got it. */
TEST(what_is_left_of_a_large_list_is_freed_by_a_thread)
{
        struct errand hold_up = {.run = wait_for};
        int file;

        ck_assert_int_eq(sem_init(&may_go_on, 0, 0), 0);
        ck_assert_int_eq(fd_closer_new(&server->closer), 0);
        fd_closer_take_errand(server->closer, &hold_up);
        row_buffer_init(&lists[FIRST], &sessions[FIRST], ROW_BYTES);
        ck_assert_uint_eq(add(FIRST, 2 * PART_ITEMS), 2 * PART_ITEMS);
        ck_assert(row_buffer_write_some(&lists[FIRST]));
        file = lists[FIRST].file;
        row_buffer_clear(&lists[FIRST]);
        ck_assert_int_ge(fcntl(file, F_GETFD), 0);
        (void)sem_post(&may_go_on);
        server->closer = fd_closer_free(server->closer);
        ck_assert_int_eq(fcntl(file, F_GETFD), -1);
        lists[FIRST].closer = NULL;
        (void)sem_destroy(&may_go_on);
}

TEST(a_list_alone_may_have_any_size)
{
        ck_assert_uint_eq(add(FIRST, 2 * N_ROWS), 2 * N_ROWS);
        ck_assert_uint_eq(add(SECOND, 16), 0);
}

TESTS_MAIN("rows", .start = start, .stop = stop)
