/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl why-oom: what was refused for want of memory, why, and how it is now. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/event_rows.h"
#include "ctl/query/oom_join.h"
#include "ctl/query/pool_stats.h"

#define LAST 5

static const char help[] =
        "Usage: gpumemctl why-oom [OPTION]...\n"
        "Shows the last requests for memory that gpumemd, the library or the driver\n"
        "refused: process, size, the reason, what can be done; and the pool now.\n"
        "\n"
        "  --pid N     of this process only\n"
        "  --uid USER  of this user's tenants only; a name or a uid\n"
        "  --last N    at most this many; default: 5\n"
        "  --json      for programs\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Requests of a process within 2 s, refused for the same reason, count as one\n"
        "refusal, with the smallest and the largest size: the library asks at least twice\n"
        "before an allocation fails. What can be had now is free, cached or idle in the\n"
        "pool, unless limits of clients or tenants leave less (gpumemctl limits): no free\n"
        "memory while the driver does not answer, and none of a lost device. Only root\n"
        "and gpumemd's user see refusals of others.\n";

enum { WHY_PID = OPTION_OWN, WHY_UID, WHY_LAST };

struct why {
        bool has_uid;
        uint32_t uid;
        uint32_t pid; /* 0: any */
        uint64_t last;
};

static bool is_asked_for(const struct why *why, const struct event_row *row)
{
        return oom_is_of_memory(row) && (!why->pid || row->pid == why->pid) &&
               (!why->has_uid || row->uid == why->uid);
}

/* Keeps the last ones that are asked for, in their order. */
static void choose(const struct why *why, struct event_rows *event_rows)
{
        uint64_t last = why->last ? why->last : LAST;
        uint32_t n = 0, n_left_out;

        for (uint32_t i = 0; i < event_rows->n; i++) {
                if (is_asked_for(why, &event_rows->rows[i]))
                        event_rows->rows[n++] = event_rows->rows[i];
        }
        n = oom_join(event_rows->rows, n);
        n_left_out = n > last ? n - (uint32_t)last : 0;
        for (uint32_t i = n_left_out; i < n; i++)
                event_rows->rows[i - n_left_out] = event_rows->rows[i];
        event_rows->n = n - n_left_out;
}

static const struct stats_row *stats_of(const struct pool_stats *pool_stats, uint32_t pool)
{
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->stats[i].pool == pool)
                        return &pool_stats->stats[i];
        }
        return NULL;
}

/* Under a limit more may be free than its holder can have. */
static void print_now(const struct stats_row *stats, const struct event_row *row)
{
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX];
        char idle[SIZE_TEXT_MAX], room[SIZE_TEXT_MAX];

        (void)printf("  now: %s of %s reserved, %s leased (%s idle)",
                     size_format(stats->reserved, reserved), size_format(stats->max, max),
                     size_format(stats->leased, leased), size_format(stats->idle, idle));
        if (row->reason != PROTO_REFUSED_QUOTA)
                (void)printf(", %s can be had", size_format(oom_room(stats), room));
        (void)printf("\n");
}

/* "32.00 MiB to 512.00 MiB", or one size. */
static void print_sizes(const struct event_row *row)
{
        char least[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];

        if (row->least < row->most)
                (void)printf("%s to %s", size_format(row->least, least),
                             size_format(row->most, most));
        else
                (void)printf("%s", size_format(row->bytes, most));
}

static void print_refusal(const struct pool_stats *pool_stats, const struct event_row *row)
{
        const struct stats_row *stats = stats_of(pool_stats, row->pool);
        char time[EVENT_ROWS_TIME_MAX];

        event_rows_time(row, time);
        (void)printf("%s  %s (pid %" PRIu32 "), uid %" PRIu32 "%s%s, was refused ", time,
                     row->program, row->pid, row->uid, *row->container ? " in " : "",
                     row->container);
        print_sizes(row);
        if (row->pool != LISTING_NOBODY)
                (void)printf(" of pool %" PRIu32, row->pool);
        if (row->times > 1)
                (void)printf(", in %" PRIu32 " requests", row->times);
        (void)printf(":\n  %s\n", row->text);
        if (stats)
                print_now(stats, row);
}

static void print_nothing(const struct why *why, const struct event_rows *event_rows)
{
        (void)printf("nothing was refused for lack of memory");
        if (why->pid)
                (void)printf(" to process %" PRIu32, why->pid);
        if (why->has_uid)
                (void)printf(" %s user %" PRIu32, why->pid ? "of" : "to", why->uid);
        (void)printf("%s\n", event_rows->n_lost ? ", as far as gpumemd remembers" : "");
}

static void print_lines(const struct why *why, const struct pool_stats *pool_stats,
                        const struct event_rows *event_rows)
{
        for (uint32_t i = 0; i < event_rows->n; i++)
                print_refusal(pool_stats, &event_rows->rows[i]);
        if (!event_rows->n)
                print_nothing(why, event_rows);
}

static json_t *now_to_json(const struct stats_row *stats)
{
        if (!stats)
                return json_null();
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "max_bytes",
                         json_figure(stats->max), "reserved_bytes", json_figure(stats->reserved),
                         "leased_bytes", json_figure(stats->leased), "idle_bytes",
                         json_figure(stats->idle), "cached_bytes", json_figure(stats->cached),
                         "lingering_bytes", json_figure(stats->lingering), "room_bytes",
                         json_figure(oom_room(stats)));
}

static int print_json(const struct pool_stats *pool_stats, const struct event_rows *event_rows)
{
        json_t *array = json_array();

        for (uint32_t i = 0; i < event_rows->n; i++) {
                const struct event_row *row = &event_rows->rows[i];
                json_t *refusal = event_rows_to_json(row);

                (void)json_object_set_new(refusal, "now",
                                          now_to_json(stats_of(pool_stats, row->pool)));
                (void)json_array_append_new(array, refusal);
        }
        return print_json_value(json_pack("{s:o, s:I}", "refusals", array, "lost_count",
                                          json_figure(event_rows->n_lost)));
}

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats pool_stats = {.n = 0};
        CLEANUP(event_rows_deinit)
        struct event_rows event_rows = {.rows = NULL};
        int r = event_rows_fetch(link, 0, EVENT_ROWS_BIT(REFUSED) | EVENT_ROWS_BIT(STOPPING),
                                 &event_rows);
        bool ends;

        if (!r)
                r = pool_stats_fetch(link, &pool_stats);
        if (r)
                return report_refusal(link, "why-oom", r);
        ends = event_rows_has_end(&event_rows);
        choose(arguments->own, &event_rows);
        if (arguments->output == OUTPUT_JSON)
                return print_json(&pool_stats, &event_rows);
        print_lines(arguments->own, &pool_stats, &event_rows);
        if (ends)
                (void)puts(EVENT_ROWS_END);
        return STATUS_OK;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct why *why = arguments->own;
        uint64_t number;

        if (id == WHY_UID) {
                if (parse_user(value, &why->uid))
                        return parse_refuse("--uid", value, "a uid or a user name");
                why->has_uid = true;
                return 0;
        }
        if (parse_number(value, &number) || !number || number > INT32_MAX)
                return parse_refuse(id == WHY_PID ? "--pid" : "--last", value, "1-2147483647");
        if (id == WHY_PID)
                why->pid = (uint32_t)number;
        else
                why->last = number;
        return 0;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"pid", required_argument, NULL, WHY_PID},
        {"uid", required_argument, NULL, WHY_UID},
        {"last", required_argument, NULL, WHY_LAST},
        COMMAND_OPTIONS_END,
};

const struct command why_oom_command = {
        .name = "why-oom",
        .line = "why requests were refused for lack of memory; the pool now",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct why),
};
