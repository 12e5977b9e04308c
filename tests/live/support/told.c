/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/told.h"

#include "tests/live/support/world.h"

struct told told_fetch(struct link *link, uint64_t since, uint32_t kinds)
{
        struct frame request = {.events = {.since = since, .kinds = kinds}}, reply;
        void *rows = rows_over(link, &request, MESSAGE_EVENTS, sizeof(struct event_row), &reply);

        return (struct told){.rows = rows,
                             .n_rows = reply.events_reply.n_rows,
                             .next = reply.events_reply.next,
                             .end = reply.events_reply.end,
                             .n_lost = reply.events_reply.n_lost};
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

        for (unsigned ms = 0; ms < AWAIT_MS && !found; ms++) {
                found = find(link, what, pid, uid, &row);
                if (!found)
                        sleep_ms(1);
        }
        ck_assert_msg(found, "no event: %s", listed_event_name(what));
        link_free(link);
        return row;
}
