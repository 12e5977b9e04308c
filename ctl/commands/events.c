/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl events: what has happened, as far as gpumemd remembers it, and what happens. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "ctl/core/command.h"
#include "ctl/core/interrupt.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/parse.h"
#include "ctl/output/table.h"
#include "ctl/query/event_rows.h"

/* Between two requests of --follow. */
#define FOLLOW_MS 200

static const char help[] =
        "Usage: gpumemctl events [OPTION]...\n"
        "Shows the events that gpumemd remembers: clients that came and went, unless they\n"
        "only looked, as gpumemctl does; memory that was granted, refused, taken back or\n"
        "lingers; states of devices; limits.\n"
        "\n"
        "  EVENT  number of the event, unique. Similar events of one client within a\n"
        "         second share a line, which has the number of the last one\n"
        "  TIMES  how often it happened\n"
        "  SIZE   of all of them; for a refusal, of the last request\n"
        "\n"
        "  --pid N      of this process only\n"
        "  --uid USER   of this user's tenants only; a name or a uid\n"
        "  --what KIND  of this kind only, such as turned-away; can be repeated\n"
        "  --last N     the last N lines only; --follow begins with them\n"
        "  --follow     continues until interrupted (exit 0), or gpumemd ends (exit 3). A\n"
        "               line that counts more events than before is printed again\n"
        "  --since N    from the event with this number on\n"
        "  --json       for programs; with --follow one object per line\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "gpumemd remembers 4096 lines; a client that causes many evicts its own. Only\n"
        "root and gpumemd's user see all tenants; other users see sums of the others, but\n"
        "not with --follow, --pid, --uid and --last.\n";

enum { EVENTS_FOLLOW = OPTION_OWN, EVENTS_SINCE, EVENTS_PID, EVENTS_UID, EVENTS_WHAT, EVENTS_LAST };

struct events {
        bool follows;
        uint64_t since;
        struct event_rows_choice choice;
};

/* "-" for what stands for none. */
static const char *number(char text[static TABLE_CELL_MAX], uint64_t value, uint64_t none)
{
        (void)snprintf(text, TABLE_CELL_MAX, "-");
        if (value != none)
                format_count(text, value);
        return text;
}

static void print_line(const struct event_row *row)
{
        char event[TABLE_CELL_MAX], uid[TABLE_CELL_MAX], pid[TABLE_CELL_MAX], pool[TABLE_CELL_MAX];
        char time[EVENT_ROWS_TIME_MAX], bytes[TABLE_CELL_MAX] = "-";
        bool is_of_gpumemd;

        event_rows_time(row, time);
        if (row->bytes)
                format_bytes(bytes, row->bytes);
        /* What gpumemd itself does has no program. */
        is_of_gpumemd = !*row->program && !row->pid && *row->text;
        (void)printf("%-23s  %16s  %-11s  %5" PRIu32 "  %5s  %7s  %4s  %10s  %s%s%s%s%s\n", time,
                     number(event, row->event, 0), listed_event_name(row->what), row->times,
                     number(uid, row->uid, LISTING_NOBODY), number(pid, row->pid, 0),
                     number(pool, row->pool, LISTING_NOBODY), bytes,
                     is_of_gpumemd   ? ""
                     : *row->program ? row->program
                                     : "-",
                     *row->container ? " in " : "", row->container,
                     *row->text && !is_of_gpumemd ? ": " : "", row->text);
}

static void print_heading(void)
{
        (void)printf("%-23s  %16s  %-11s  %5s  %5s  %7s  %4s  %10s  PROGRAM: TEXT\n", "TIME",
                     "EVENT", "WHAT", "TIMES", "UID", "PID", "POOL", "SIZE");
}

static int print_followed(const struct event_rows *event_rows, enum output output)
{
        for (uint32_t i = 0; i < event_rows->n; i++) {
                int r = 0;

                if (event_rows_is_sum(&event_rows->rows[i]))
                        continue;
                if (output == OUTPUT_JSON)
                        r = print_json_line(event_rows_to_json(&event_rows->rows[i]));
                else
                        print_line(&event_rows->rows[i]);
                if (r)
                        return r;
        }
        return flush_lines();
}

static int print_all_json(const struct event_rows *event_rows)
{
        json_t *rows = json_array();

        for (uint32_t i = 0; i < event_rows->n; i++)
                (void)json_array_append_new(rows, event_rows_to_json(&event_rows->rows[i]));
        return print_json_value(json_pack("{s:o, s:I, s:I}", "events", rows, "next",
                                          json_figure(event_rows->next), "lost_count",
                                          json_figure(event_rows->n_lost)));
}

static int print_all(const struct event_rows *event_rows)
{
        print_heading();
        if (!event_rows->n)
                (void)fprintf(stderr, "gpumemctl: gpumemd remembers no such event that this user "
                                      "may see\n");
        for (uint32_t i = 0; i < event_rows->n; i++)
                print_line(&event_rows->rows[i]);
        if (event_rows->n_lost)
                (void)printf("%" PRIu64 " before are not remembered any more\n",
                             event_rows->n_lost);
        return STATUS_OK;
}

static int show(struct link *link, const struct arguments *arguments)
{
        const struct events *events = arguments->own;
        CLEANUP(event_rows_deinit)
        struct event_rows event_rows = {.rows = NULL};
        int r = event_rows_fetch(link, events->since, events->choice.kinds, &event_rows);

        if (r)
                return report_refusal(link, "events", r);
        event_rows_choose(&event_rows, &events->choice);
        return arguments->output == OUTPUT_JSON ? print_all_json(&event_rows)
                                                : print_all(&event_rows);
}

/* Events that were overwritten before they were fetched: on stderr, apart from the list. */
static void say_lost(uint64_t n_before, uint64_t n_lost)
{
        if (n_lost > n_before)
                (void)fprintf(stderr, "gpumemctl: events: %" PRIu64 " may be missing here\n",
                              n_lost - n_before);
}

static int step(struct link *link, enum output output, const struct event_rows_choice *choice,
                struct event_rows *last)
{
        CLEANUP(event_rows_deinit)
        struct event_rows event_rows = {.rows = NULL};
        int r = event_rows_fetch(link, last->next, choice->kinds, &event_rows);

        event_rows_choose(&event_rows, choice);
        if (!r)
                r = print_followed(&event_rows, output);
        last->next = event_rows.next;
        last->n_lost = event_rows.n_lost;
        return r;
}

static int follow(struct link *link, const struct arguments *arguments)
{
        const struct events *events = arguments->own;
        struct event_rows_choice choice = events->choice;
        struct event_rows last = {.next = events->since};
        uint64_t n_lost;
        int r;

        interrupt_catch();
        if (arguments->output == OUTPUT_TABLE)
                print_heading();
        r = step(link, arguments->output, &choice, &last);
        n_lost = last.n_lost;
        choice.last = 0;
        while (!r && interrupt_wait_until(clock_now_ms() + FOLLOW_MS)) {
                r = step(link, arguments->output, &choice, &last);
                say_lost(n_lost, last.n_lost);
                n_lost = last.n_lost;
        }
        return r ? report_refusal(link, "events", r) : STATUS_OK;
}

static int run(struct link *link, const struct arguments *arguments)
{
        const struct events *events = arguments->own;

        return events->follows ? follow(link, arguments) : show(link, arguments);
}

static int take_pid(const char *value, struct event_rows_choice *choice)
{
        uint64_t pid;

        if (parse_number(value, &pid) || pid == 0 || pid > INT32_MAX)
                return parse_refuse("--pid", value, "1-2147483647");
        choice->pid = (uint32_t)pid;
        return 0;
}

static int take_uid(const char *value, struct event_rows_choice *choice)
{
        if (parse_user(value, &choice->uid))
                return parse_refuse("--uid", value, "a uid or a user name");
        choice->has_uid = true;
        return 0;
}

static int take_what(const char *value, struct event_rows_choice *choice)
{
        char allowed[EVENT_ROWS_KINDS_MAX];
        uint32_t kind = event_rows_kind(value);

        event_rows_list_kinds(allowed);
        if (!kind)
                return parse_refuse("--what", value, allowed);
        choice->kinds |= kind;
        return 0;
}

static int take_last(const char *value, struct event_rows_choice *choice)
{
        if (parse_number(value, &choice->last) || choice->last == 0 || choice->last > INT32_MAX)
                return parse_refuse("--last", value, "1-2147483647");
        return 0;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct events *events = arguments->own;

        switch (id) {
        case EVENTS_FOLLOW:
                events->follows = true;
                arguments->answer = ANSWER_AS_IT_COMES;
                return 0;
        case EVENTS_PID:
                return take_pid(value, &events->choice);
        case EVENTS_UID:
                return take_uid(value, &events->choice);
        case EVENTS_WHAT:
                return take_what(value, &events->choice);
        case EVENTS_LAST:
                return take_last(value, &events->choice);
        default:
                if (parse_number(value, &events->since))
                        return parse_refuse("--since", value, "a number of the column EVENT");
                return 0;
        }
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"follow", no_argument, NULL, EVENTS_FOLLOW},
        {"since", required_argument, NULL, EVENTS_SINCE},
        {"pid", required_argument, NULL, EVENTS_PID},
        {"uid", required_argument, NULL, EVENTS_UID},
        {"what", required_argument, NULL, EVENTS_WHAT},
        {"last", required_argument, NULL, EVENTS_LAST},
        COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"what", COMMAND_VALUE_KINDS, NULL},
        COMMAND_VALUES_END,
};

const struct command events_command = {
        .name = "events",
        .line = "what happened; --follow shows new events as they come",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct events),
};
