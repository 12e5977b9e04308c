/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/event_rows.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "client/connection/query.h"
#include "ctl/output/format.h"
#include "ctl/query/listing.h"

/* A daemon has 64, and some that came meanwhile; one that says more is not believed. */
#define PAGES_MAX 128

void event_rows_deinit(struct event_rows *event_rows)
{
        free(event_rows->rows);
}

static int append(struct event_rows *event_rows, const void *rows, uint32_t n)
{
        struct event_row *all = reallocarray(event_rows->rows, event_rows->n + n, sizeof(*all));

        if (!all)
                return -ENOMEM;
        event_rows->rows = all;
        memcpy(all + event_rows->n, rows, n * sizeof(*all));
        for (uint32_t i = event_rows->n; i < event_rows->n + n; i++)
                listing_clean(&event_row_list, (char *)&all[i]);
        event_rows->n += n;
        return 0;
}

/* Returns whether there is more in ret_more. */
static int fetch_page(struct link *link, uint64_t since, uint32_t kinds,
                      struct event_rows *event_rows, bool *ret_more)
{
        static const struct query query = {MESSAGE_EVENTS, MESSAGE_EVENTS_REPLY,
                                           sizeof(struct event_row)};
        CLEANUP(freep)
        void *rows = NULL;
        struct frame request = FRAME_NULL, reply;
        uint32_t n_rows;
        int r;

        request.events.since = since;
        request.events.kinds = kinds;
        r = query_ask(link, &query, &request, &reply, &rows, &n_rows);
        if (!r && n_rows)
                r = append(event_rows, rows, n_rows);
        if (r)
                return r;
        event_rows->next = reply.events_reply.next;
        event_rows->n_lost = reply.events_reply.n_lost;
        *ret_more = reply.events_reply.next > since &&
                    reply.events_reply.next < reply.events_reply.end;
        return 0;
}

int event_rows_fetch(struct link *link, uint64_t since, uint32_t kinds,
                     struct event_rows *ret_happened)
{
        bool is_more = true;
        int r = 0;

        *ret_happened = (struct event_rows){.next = since};
        for (unsigned i = 0; i < PAGES_MAX && is_more && !r; i++)
                r = fetch_page(link, ret_happened->next, kinds, ret_happened, &is_more);
        return r;
}

bool event_rows_is_sum(const struct event_row *row)
{
        return row->event == 0;
}

static bool is_wanted(const struct event_rows_choice *choice, const struct event_row *row)
{
        if (event_rows_is_sum(row))
                return !choice->pid && !choice->has_uid && !choice->last;
        return (!choice->pid || row->pid == choice->pid) &&
               (!choice->has_uid || row->uid == choice->uid);
}

void event_rows_choose(struct event_rows *event_rows, const struct event_rows_choice *choice)
{
        uint32_t n = 0, n_left_out;

        for (uint32_t i = 0; i < event_rows->n; i++) {
                if (is_wanted(choice, &event_rows->rows[i]))
                        event_rows->rows[n++] = event_rows->rows[i];
        }
        n_left_out = choice->last && n > choice->last ? n - (uint32_t)choice->last : 0;
        for (uint32_t i = n_left_out; i < n; i++)
                event_rows->rows[i - n_left_out] = event_rows->rows[i];
        event_rows->n = n - n_left_out;
}

static const struct {
        const char *name;
        uint32_t bit;
} kinds[] = {
#define EVENT(NAME, name, number, lane, text) {#name, UINT32_C(1) << (number)},
#include "proto/event_kinds.def"
#undef EVENT
};

/* For a shell a word has no space. */
static char hyphenated(char c)
{
        return c == ' ' ? '-' : c;
}

static bool is_word(const char *word, const char *name)
{
        while (*word && hyphenated(*word) == hyphenated(*name)) {
                word++;
                name++;
        }
        return !*word && !*name;
}

uint32_t event_rows_kind(const char *word)
{
        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (is_word(word, kinds[i].name))
                        return kinds[i].bit;
        }
        return 0;
}

void event_rows_list_kinds(char text[static EVENT_ROWS_KINDS_MAX])
{
        size_t n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
                const char *between = i ? ", " : "";

                while (*between && n < EVENT_ROWS_KINDS_MAX - 1)
                        text[n++] = *between++;
                for (const char *c = kinds[i].name; *c && n < EVENT_ROWS_KINDS_MAX - 1; c++)
                        text[n++] = hyphenated(*c);
        }
        text[n] = '\0';
}

bool event_rows_has_end(const struct event_rows *event_rows)
{
        for (uint32_t i = 0; i < event_rows->n; i++) {
                if (event_rows->rows[i].what == LISTED_EVENT_STOPPING)
                        return true;
        }
        return false;
}

int event_rows_fetch_end(struct link *link, bool *ret_is_ending)
{
        CLEANUP(event_rows_deinit)
        struct event_rows event_rows = {.rows = NULL};
        int r = event_rows_fetch(link, 0, EVENT_ROWS_BIT(STOPPING), &event_rows);

        if (!r)
                *ret_is_ending = event_rows_has_end(&event_rows);
        return r;
}

static void find_time_by_age(const struct event_row *row, struct timespec *ret_time)
{
        uint64_t age_s = row->age / 1000;
        long age_ns = (long)(row->age % 1000) * 1000000;

        (void)clock_gettime(CLOCK_REALTIME, ret_time);
        if (age_s >= (uint64_t)ret_time->tv_sec) {
                *ret_time = (struct timespec){.tv_sec = 0};
                return;
        }
        ret_time->tv_sec -= (time_t)age_s;
        ret_time->tv_nsec -= age_ns;
        if (ret_time->tv_nsec < 0) {
                ret_time->tv_nsec += 1000000000;
                ret_time->tv_sec--;
        }
}

/* Beyond that a number does not stand for a time: a clock was set since. */
#define CLOCKS_APART_S 60

/* An event's number is its time in microseconds, by the clock of the daemon's log: the same in each answer. How long
 * ago it was says so only about. */
static void find_time(const struct event_row *row, struct timespec *ret_time)
{
        int64_t number_s = (int64_t)(row->event / 1000000);

        find_time_by_age(row, ret_time);
        if (number_s < ret_time->tv_sec - CLOCKS_APART_S ||
            number_s > ret_time->tv_sec + CLOCKS_APART_S)
                return;
        ret_time->tv_sec = (time_t)number_s;
        ret_time->tv_nsec = (long)(row->event % 1000000) * 1000;
}

void event_rows_time(const struct event_row *row, char ret_text[static EVENT_ROWS_TIME_MAX])
{
        struct timespec time;
        struct tm local;
        size_t n;

        (void)snprintf(ret_text, EVENT_ROWS_TIME_MAX, "-");
        if (event_rows_is_sum(row))
                return;
        find_time(row, &time);
        if (!localtime_r(&time.tv_sec, &local))
                return;
        n = strftime(ret_text, EVENT_ROWS_TIME_MAX, "%Y-%m-%d %H:%M:%S", &local);
        (void)snprintf(ret_text + n, EVENT_ROWS_TIME_MAX - n, ".%03ld", time.tv_nsec / 1000000);
}

static json_t *time_to_json(const struct event_row *row)
{
        char text[FORMAT_MOMENT_MAX];
        struct timespec time;

        if (event_rows_is_sum(row))
                return json_null();
        find_time(row, &time);
        return format_moment(text, &time) ? json_string(text) : json_null();
}

json_t *event_rows_to_json(const struct event_row *row)
{
        json_t *object = listing_row_to_json(&event_row_list, (const char *)row);

        (void)json_object_set_new(object, "time", time_to_json(row));
        return object;
}
