/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl watch: the pools' figures again and again, a line each. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/runtime/last_error.h"
#include "ctl/core/connect.h"
#include "ctl/core/interrupt.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/parse.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "ctl/query/event_rows.h"
#include "ctl/query/pool_stats.h"
#include "gpumem.h"

#define INTERVAL_MS     1000
#define INTERVAL_MS_MIN 100
#define INTERVAL_MS_MAX 3600000

/* Between tries to connect. */
#define RETRY_MS 20

/* Of a terminal that does not say how many it has. */
#define SCREEN_LINES 24

static const char help[] =
        "Usage: gpumemctl watch [OPTION]...\n"
        "Shows what each pool holds again and again: a line for each pool and look.\n"
        "\n"
        "  RESERVED, LEASED, IDLE, CACHED, FREE, SPLIT  as in gpumemctl help stats; and\n"
        "  LINGER   LINGERING\n"
        "  ALLOC    ALLOCATED\n"
        "  WAIT     WAITING\n"
        "  EVENTS   since the look before: requests that were refused, and idle leases\n"
        "           that were revoked; an allocation that fails is two requests at least\n"
        "\n"
        "  --interval S    seconds between two looks, 0.1-3600; default: 1\n"
        "  --count N       ends after N looks, with exit status 0\n"
        "  --pool ID       this pool only\n"
        "  --wait SECONDS  for a gpumemd that does not listen yet, and for the next one\n"
        "                  when it has ended; default: 0\n"
        "  --json          for programs: an object each line, with all figures of stats\n"
        "  --socket, --timeout  as in gpumemctl --help\n"
        "It continues until interrupted (exit 0), or gpumemd ends (exit 3). Each line is\n"
        "written at once. On a terminal each screen has the heading.\n"
        "Example: gpumemctl watch --interval 0.5 --count 10\n";

enum { WATCH_INTERVAL = OPTION_OWN, WATCH_COUNT };

struct watch_options {
        uint64_t interval_ms; /* 0: INTERVAL_MS */
        uint64_t count;       /* 0: no end */
};

struct watch {
        const struct arguments *arguments;
        struct link *link;
        struct pool_stats before;   /* as of the last look at this daemon; n is 0: there was none */
        unsigned n_lines_to_header; /* of the screen */
        bool says_end;              /* that the daemon is ending */
};

/* What happened in a pool between two looks. */
struct happened {
        bool is_known; /* there was a look before */
        uint64_t n_refusals;
        uint64_t n_revocations;
};

static uint64_t more_than(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

/* Pools stay the same while a daemon runs. */
static struct happened happened_since(const struct pool_stats *before, const struct pool_stats *now,
                                      uint32_t i)
{
        if (before->n != now->n)
                return (struct happened){.is_known = false};
        return (struct happened){
                .is_known = true,
                .n_refusals = more_than(now->stats[i].refusals, before->stats[i].refusals),
                .n_revocations = more_than(now->stats[i].revocations, before->stats[i].revocations),
        };
}

static void describe(const struct happened *happened, char text[static TABLE_CELL_MAX])
{
        char refused[TABLE_CELL_MAX / 2] = "", revoked[TABLE_CELL_MAX / 2] = "";

        if (happened->n_refusals)
                (void)snprintf(refused, sizeof(refused), "%" PRIu64 " refused",
                               happened->n_refusals);
        if (happened->n_revocations)
                (void)snprintf(revoked, sizeof(revoked), "%" PRIu64 " revoked",
                               happened->n_revocations);
        (void)snprintf(text, TABLE_CELL_MAX, "%s%s%s", refused, *refused && *revoked ? ", " : "",
                       *refused || *revoked ? revoked : "-");
}

/* Lines of one look stay together. Where there is no screen, one heading is enough. */
static void print_header(struct watch *watch, unsigned n_lines)
{
        if (watch->n_lines_to_header < n_lines) {
                unsigned n = screen_lines(SCREEN_LINES);

                (void)printf("%-8s %4s %8s %6s %5s %6s %6s %5s %5s %5s %4s %s\n", "TIME", "POOL",
                             "RESERVED", "LEASED", "IDLE", "CACHED", "LINGER", "ALLOC", "FREE",
                             "SPLIT", "WAIT", "EVENTS");
                watch->n_lines_to_header = n > n_lines + 2 ? n - 2 : n_lines;
        }
        if (isatty(STDOUT_FILENO))
                watch->n_lines_to_header -= n_lines;
}

static void print_line(const struct timespec *time, const struct stats_row *stats,
                       const struct happened *happened)
{
        const uint64_t figures[] = {stats->reserved,  stats->leased,    stats->idle, stats->cached,
                                    stats->lingering, stats->allocated, stats->free, stats->split};
        static const int widths[ARRAY_SIZE(figures)] = {8, 6, 5, 6, 6, 5, 5, 5};
        char clock[16] = "-", cell[TABLE_CELL_MAX];
        struct tm local;

        if (localtime_r(&time->tv_sec, &local))
                (void)strftime(clock, sizeof(clock), "%H:%M:%S", &local);
        (void)printf("%-8s %4" PRIu32, clock, stats->pool);
        for (unsigned i = 0; i < ARRAY_SIZE(figures); i++) {
                format_short_bytes(cell, figures[i]);
                (void)printf(" %*s", widths[i], cell);
        }
        describe(happened, cell);
        (void)printf(" %4" PRIu64 " %s\n", stats->waiting, cell);
}

static json_t *count_to_json(const struct happened *happened, uint64_t n)
{
        return happened->is_known ? json_integer(json_figure(n)) : json_null();
}

static int print_json(const struct timespec *time, const struct pool_row *pool,
                      const struct stats_row *stats, const struct happened *happened)
{
        json_t *object = pool_stats_to_json(pool, stats);
        char text[FORMAT_MOMENT_MAX];

        (void)json_object_set_new(object, "time",
                                  format_moment(text, time) ? json_string(text) : json_null());
        (void)json_object_set_new(object, "new_refusals_count",
                                  count_to_json(happened, happened->n_refusals));
        (void)json_object_set_new(object, "new_revocations_count",
                                  count_to_json(happened, happened->n_revocations));
        return print_json_line(object);
}

static bool is_shown(const struct watch *watch, const struct pool_row *pool)
{
        return watch->arguments->pool == PROTO_ALL_POOLS || pool->id == watch->arguments->pool;
}

static int print_look(struct watch *watch, const struct pool_stats *now)
{
        bool is_json = watch->arguments->output == OUTPUT_JSON;
        struct timespec time;

        (void)clock_gettime(CLOCK_REALTIME, &time);
        if (!is_json)
                print_header(watch, watch->arguments->pool == PROTO_ALL_POOLS ? now->n : 1);
        for (uint32_t i = 0; i < now->n; i++) {
                struct happened happened = happened_since(&watch->before, now, i);
                int r = 0;

                if (!is_shown(watch, &now->pools[i]))
                        continue;
                if (is_json)
                        r = print_json(&time, &now->pools[i], &now->stats[i], &happened);
                else
                        print_line(&time, &now->stats[i], &happened);
                if (r)
                        return r;
        }
        return flush_lines();
}

/* On stderr, apart from the lines. */
static void say(const char *sentence)
{
        (void)fprintf(stderr, "gpumemctl: watch: %s\n", sentence);
}

static void forget_before(struct watch *watch)
{
        pool_stats_deinit(&watch->before);
        watch->before = (struct pool_stats){.n = 0};
}

static int look(struct watch *watch)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats now = {.n = 0};
        bool is_ending = false;
        int r = pool_stats_fetch(watch->link, &now);

        if (!r)
                r = pool_stats_check_pool(&now, watch->arguments->pool);
        if (!r)
                r = event_rows_fetch_end(watch->link, &is_ending);
        if (!r)
                r = print_look(watch, &now);
        if (r)
                return r;
        if (is_ending && !watch->says_end)
                say(EVENT_ROWS_END);
        watch->says_end = is_ending;
        forget_before(watch);
        watch->before = now;
        now = (struct pool_stats){.n = 0};
        return 0;
}

/* The next daemon, for which --wait says how long; 0 is not at all. What has happened since the look before is not
 * known. */
static int connect_again(struct watch *watch, int result)
{
        uint64_t end_ms = clock_now_ms() + (uint64_t)watch->arguments->wait_s * 1000;
        struct arguments at_once = *watch->arguments;

        if (result != GPUMEM_E_DISCONNECTED || !at_once.wait_s)
                return result;
        say(last_error_reason(result));
        watch->link = link_free(watch->link);
        forget_before(watch);
        watch->says_end = false;
        at_once.wait_s = 0;
        while (result == GPUMEM_E_DISCONNECTED && clock_now_ms() < end_ms &&
               interrupt_wait_until(clock_now_ms() + RETRY_MS))
                result = connect_to_daemon(&at_once, &watch->link);
        if (!result)
                say("connected to gpumemd again");
        return result;
}

static int watch_all(struct watch *watch)
{
        const struct watch_options *own = watch->arguments->own;
        uint64_t interval_ms = own->interval_ms ? own->interval_ms : INTERVAL_MS;
        uint64_t next_ms = clock_now_ms(), n_looks = 0;
        int r;

        for (;;) {
                r = look(watch);
                if (r) {
                        r = connect_again(watch, r);
                        if (r)
                                return interrupt_came() ? 0 : r;
                        continue;
                }
                if (++n_looks == own->count)
                        return 0;
                next_ms += interval_ms;
                if (next_ms < clock_now_ms())
                        next_ms = clock_now_ms();
                if (!interrupt_wait_until(next_ms))
                        return 0;
        }
}

static int run(struct link *none, const struct arguments *arguments)
{
        struct watch watch = {.arguments = arguments};
        int r = connect_to_daemon(arguments, &watch.link);

        (void)none;
        if (r)
                return report_no_connection(r, arguments);
        interrupt_catch();
        r = watch_all(&watch);
        if (r)
                r = report_failure("watch", r);
        forget_before(&watch);
        link_free(watch.link);
        return r;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct watch_options *own = arguments->own;

        if (id == WATCH_INTERVAL) {
                if (parse_milliseconds(value, &own->interval_ms) ||
                    own->interval_ms < INTERVAL_MS_MIN || own->interval_ms > INTERVAL_MS_MAX)
                        return parse_refuse("--interval", value, "0.1-3600 seconds");
                return 0;
        }
        if (parse_number(value, &own->count) || own->count == 0 || own->count > INT32_MAX)
                return parse_refuse("--count", value, "1-2147483647");
        return 0;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_POOL,
        {"interval", required_argument, NULL, WATCH_INTERVAL},
        {"count", required_argument, NULL, WATCH_COUNT},
        COMMAND_OPTIONS_END,
};

const struct command watch_command = {
        .name = "watch",
        .line = "the figures of the pools again and again, a line each",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct watch_options),
        .answer = ANSWER_AS_IT_COMES,
        .link = COMMAND_LINKS,
};
