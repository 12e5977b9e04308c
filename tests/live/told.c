/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/told.h"

#include <check.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/connection/rows.h"
#include "tests/live/daemon.h"
#include "tests/live/links.h"

#define PATIENCE_MS 20000

struct told told_fetch(struct link *link, uint64_t since, uint32_t kinds)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct told told = {.rows = NULL};
        void *rows = NULL;

        request.events.since = since;
        request.events.kinds = kinds;
        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_EVENTS, MESSAGE_EVENTS_REPLY, &reply, &fds), 0);
        if (reply.events_reply.n_rows)
                ck_assert_int_eq(rows_read(fds.fds[0], reply.events_reply.n_rows,
                                           reply.events_reply.n_row_bytes, sizeof(struct event_row),
                                           &rows),
                                 0);
        told.rows = rows;
        told.n_rows = reply.events_reply.n_rows;
        told.next = reply.events_reply.next;
        told.end = reply.events_reply.end;
        told.n_lost = reply.events_reply.n_lost;
        fdset_deinit(&fds);
        return told;
}

void told_free(struct told *told)
{
        free(told->rows);
        told->rows = NULL;
}

static bool find(struct link *link, enum listed_event what, uint32_t pid, uint32_t uid,
                 struct event_row *ret_row)
{
        struct told told = {.next = 0};
        bool found = false;

        do {
                told = told_fetch(link, told.next, UINT32_C(1) << what);
                for (uint32_t i = 0; i < told.n_rows; i++) {
                        const struct event_row *row = &told.rows[i];

                        if (row->what != what || (pid && row->pid != pid) || row->uid != uid)
                                continue;
                        *ret_row = *row;
                        found = true;
                }
                told_free(&told);
        } while (told.next < told.end);
        return found;
}

struct event_row told_await(enum listed_event what, uint32_t pid, uint32_t uid)
{
        struct link *link = open_admin_link("told");
        struct event_row row = {.event = 0};
        bool found = false;

        for (unsigned ms = 0; ms < PATIENCE_MS && !found; ms++) {
                found = find(link, what, pid, uid, &row);
                if (!found)
                        sleep_ms(1);
        }
        ck_assert_msg(found, "no event: %s", listed_event_name(what));
        link_free(link);
        return row;
}
