/* SPDX-License-Identifier: Apache-2.0 */
/* rows: how much the lists of one owner may hold while they are made. */
#include "daemon/server/lists/rows.h"

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

static void begin(unsigned at, uint32_t uid)
{
        sessions[at] = (struct session){.server = server, .peer = {.uid = uid}};
        ck_assert_int_eq(account_ref(&accounts, uid, "", &sessions[at].account), 0);
        lists[at] = (struct row_buffer){.n_row_bytes = ROW_BYTES};
        row_buffer_count_for(&lists[at], &sessions[at]);
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

TEST(a_list_alone_may_have_any_size)
{
        ck_assert_uint_eq(add(FIRST, 2 * N_ROWS), 2 * N_ROWS);
        ck_assert_uint_eq(add(SECOND, 16), 0);
}

TESTS_MAIN("rows", .start = start, .stop = stop)
