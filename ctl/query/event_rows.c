#include "ctl/query/event_rows.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "client/question.h"
#include "ctl/query/listing.h"

/* A daemon has 64, and some that came meanwhile; one that says more is not believed. */
#define PAGES_MAX 128

void happened_deinit(struct happened *happened)
{
        free(happened->rows);
}

static int append(struct happened *happened, const void *rows, uint32_t n)
{
        struct event_row *all = reallocarray(happened->rows, happened->n + n, sizeof(*all));

        if (!all)
                return -ENOMEM;
        happened->rows = all;
        memcpy(all + happened->n, rows, n * sizeof(*all));
        for (uint32_t i = happened->n; i < happened->n + n; i++)
                listing_clean(&event_row_list, (char *)&all[i]);
        happened->n += n;
        return 0;
}

/* Returns whether there is more in ret_more. */
static int fetch_page(struct link *link, uint64_t since, uint32_t kinds, struct happened *happened,
                      bool *ret_more)
{
        static const struct question question = {MESSAGE_EVENTS, MESSAGE_EVENTS_REPLY,
                                                 sizeof(struct event_row)};
        CLEANUP(freep)
        void *rows = NULL;
        struct frame request = FRAME_NULL, reply;
        uint32_t n_rows;
        int r;

        request.events.since = since;
        request.events.kinds = kinds;
        r = question_ask(link, &question, &request, &reply, &rows, &n_rows);
        if (!r && n_rows)
                r = append(happened, rows, n_rows);
        if (r)
                return r;
        happened->next = reply.events_reply.next;
        happened->n_lost = reply.events_reply.n_lost;
        *ret_more = reply.events_reply.next > since &&
                    reply.events_reply.next < reply.events_reply.end;
        return 0;
}

int happened_fetch(struct link *link, uint64_t since, uint32_t kinds, struct happened *ret_happened)
{
        bool is_more = true;
        int r = 0;

        *ret_happened = (struct happened){.next = since};
        for (unsigned i = 0; i < PAGES_MAX && is_more && !r; i++)
                r = fetch_page(link, ret_happened->next, kinds, ret_happened, &is_more);
        return r;
}

bool happened_is_sum(const struct event_row *row)
{
        return row->event == 0;
}

static bool is_wanted(const struct happened_choice *choice, const struct event_row *row)
{
        if (happened_is_sum(row))
                return !choice->pid && !choice->has_uid && !choice->last;
        return (!choice->pid || row->pid == choice->pid) &&
               (!choice->has_uid || row->uid == choice->uid);
}

void happened_choose(struct happened *happened, const struct happened_choice *choice)
{
        uint32_t n = 0, n_left_out;

        for (uint32_t i = 0; i < happened->n; i++) {
                if (is_wanted(choice, &happened->rows[i]))
                        happened->rows[n++] = happened->rows[i];
        }
        n_left_out = choice->last && n > choice->last ? n - (uint32_t)choice->last : 0;
        for (uint32_t i = n_left_out; i < n; i++)
                happened->rows[i - n_left_out] = happened->rows[i];
        happened->n = n - n_left_out;
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

uint32_t happened_kind(const char *word)
{
        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (is_word(word, kinds[i].name))
                        return kinds[i].bit;
        }
        return 0;
}

void happened_list_kinds(char text[static HAPPENED_KINDS_MAX])
{
        size_t n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
                const char *between = i ? ", " : "";

                while (*between && n < HAPPENED_KINDS_MAX - 1)
                        text[n++] = *between++;
                for (const char *c = kinds[i].name; *c && n < HAPPENED_KINDS_MAX - 1; c++)
                        text[n++] = hyphenated(*c);
        }
        text[n] = '\0';
}

bool happened_has_end(const struct happened *happened)
{
        for (uint32_t i = 0; i < happened->n; i++) {
                if (happened->rows[i].what == LISTED_EVENT_STOPPING)
                        return true;
        }
        return false;
}

int happened_fetch_end(struct link *link, bool *ret_is_ending)
{
        CLEANUP(happened_deinit)
        struct happened happened = {.rows = NULL};
        int r = happened_fetch(link, 0, HAPPENED_BIT(STOPPING), &happened);

        if (!r)
                *ret_is_ending = happened_has_end(&happened);
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

/* Beyond that a number is no time: a clock was set since. */
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

void happened_time(const struct event_row *row, char ret_text[static HAPPENED_TIME_MAX])
{
        struct timespec time;
        struct tm local;
        size_t n;

        (void)snprintf(ret_text, HAPPENED_TIME_MAX, "-");
        if (happened_is_sum(row))
                return;
        find_time(row, &time);
        if (!localtime_r(&time.tv_sec, &local))
                return;
        n = strftime(ret_text, HAPPENED_TIME_MAX, "%Y-%m-%d %H:%M:%S", &local);
        (void)snprintf(ret_text + n, HAPPENED_TIME_MAX - n, ".%03ld", time.tv_nsec / 1000000);
}

static json_t *time_to_json(const struct event_row *row)
{
        char text[2 * HAPPENED_TIME_MAX];
        struct timespec time;
        struct tm utc;
        size_t n;

        if (happened_is_sum(row))
                return json_null();
        find_time(row, &time);
        if (!gmtime_r(&time.tv_sec, &utc))
                return json_null();
        n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
        (void)snprintf(text + n, sizeof(text) - n, ".%03ldZ", time.tv_nsec / 1000000);
        return json_string(text);
}

json_t *happened_to_json(const struct event_row *row)
{
        json_t *object = listing_row_to_json(&event_row_list, (const char *)row);

        (void)json_object_set_new(object, "time", time_to_json(row));
        return object;
}
