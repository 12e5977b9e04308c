/* gpumemctl why-oom: what was refused for want of memory, why, and how it is now. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/figures.h"
#include "ctl/happened.h"
#include "ctl/limits.h"
#include "ctl/listing.h"
#include "ctl/values.h"
#include "ctl/want.h"
#include "gpumem.h"

#define LAST 5

static const char help[] =
        "Usage: gpumemctl why-oom [OPTION]...\n"
        "Shows the last requests that were refused for want of memory: who asked for how\n"
        "much, what was in the way, what can be done; and how it is there now.\n"
        "\n"
        "  --pid N     of this process only\n"
        "  --uid USER  of this user's tenants only; a name or a uid\n"
        "  --last N    so many at most; default: 5\n"
        "  --json      for programs\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Requests of a process within 2 s are one refusal, of what the last asked for:\n"
        "the library asks twice at least before an allocation fails.\n"
        "What could be had now is free, cached or idle in the pool; where a limit of\n"
        "clients or tenants (gpumemctl limits) leaves less, it is said instead. Only\n"
        "root and gpumemd's user see other tenants' refusals.\n";

enum { WHY_PID = OPTION_OWN, WHY_UID, WHY_LAST };

struct why {
        bool has_uid;
        uint32_t uid;
        uint32_t pid; /* 0: any */
        uint64_t last;
};

/* What there is now. */
struct present {
        struct figures figures;
        struct listed blocks;
        struct listed clients;
        struct limit_row *limits;
        uint32_t n_limits;
};

static void present_deinit(struct present *present)
{
        figures_deinit(&present->figures);
        listed_deinit(&present->blocks);
        listed_deinit(&present->clients);
        free(present->limits);
}

static int fetch_present(struct link *link, struct present *present)
{
        static const struct listing of_blocks = {"blocks", MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY,
                                                 &block_row_list};
        static const struct listing of_clients = {"clients", MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                                  &client_row_list};
        struct frame request = FRAME_NULL;
        uint64_t revision;
        int r = figures_fetch(link, &present->figures);

        if (!r)
                r = limits_fetch(link, &present->limits, &present->n_limits, &revision);
        request.blocks.pool = PROTO_ALL_POOLS;
        if (!r)
                r = listing_fetch(link, &of_blocks, &request, &present->blocks);
        request = (struct frame)FRAME_NULL;
        return r ? r : listing_fetch(link, &of_clients, &request, &present->clients);
}

static bool is_asked_for(const struct why *why, const struct event_row *row)
{
        return want_is_of_memory(row) && (!why->pid || row->pid == why->pid) &&
               (!why->has_uid || row->uid == why->uid);
}

/* Keeps the last ones that are asked for, in their order. */
static void choose(const struct why *why, struct happened *happened)
{
        uint64_t last = why->last ? why->last : LAST;
        uint32_t n = 0, n_left_out;

        for (uint32_t i = 0; i < happened->n; i++) {
                if (is_asked_for(why, &happened->rows[i]))
                        happened->rows[n++] = happened->rows[i];
        }
        n = want_join(happened->rows, n);
        n_left_out = n > last ? n - (uint32_t)last : 0;
        for (uint32_t i = n_left_out; i < n; i++)
                happened->rows[i - n_left_out] = happened->rows[i];
        happened->n = n - n_left_out;
}

static const struct stats_row *stats_of(const struct present *present, uint32_t pool)
{
        for (uint32_t i = 0; i < present->figures.n; i++) {
                if (present->figures.stats[i].pool == pool)
                        return &present->figures.stats[i];
        }
        return NULL;
}

static struct want_rows rows_of(const struct present *present)
{
        return (struct want_rows){
                .blocks = (const void *)present->blocks.rows,
                .n_blocks = present->blocks.n_rows,
                .clients = (const void *)present->clients.rows,
                .n_clients = present->clients.n_rows,
                .limits = present->limits,
                .n_limits = present->n_limits,
        };
}

static void print_holders(const struct want_holders *holders)
{
        char size[SIZE_TEXT_MAX];
        const char *before = ". Held by ";

        for (unsigned i = 0; i < holders->n; i++) {
                const struct want_holder *holder = &holders->largest[i];

                (void)printf("%s%s (pid %" PRIu32 ") %s", before, holder->program, holder->pid,
                             size_format(holder->n_bytes, size));
                before = ", ";
        }
        if (holders->n_more_bytes) {
                (void)printf("%smore clients %s", before, size_format(holders->n_more_bytes, size));
                before = ", ";
        }
        if (holders->n_others_bytes)
                (void)printf("%sother tenants %s", before,
                             size_format(holders->n_others_bytes, size));
}

/* That leaves less than was asked for, or none. */
static struct want_limit limit_in_the_way(const struct present *present,
                                          const struct event_row *row)
{
        const struct want_rows rows = rows_of(present);
        uint32_t of_bytes = row->kind == GPUMEM_DEVICE ? PROTO_LIMIT_DEVICE_BYTES
                                                       : PROTO_LIMIT_PINNED_BYTES;
        struct want_limit limit = want_limit(&rows, row, PROTO_LIMIT_LEASES);

        if (limit.row && !limit.room)
                return limit;
        limit = want_limit(&rows, row, of_bytes);
        return limit.row && limit.room < row->bytes ? limit : (struct want_limit){.row = NULL};
}

static void print_limit(const struct want_limit *limit)
{
        const char *scope = limit->row->scope == PROTO_LIMIT_OF_CLIENT ? "client" : "tenant";
        char max[SIZE_TEXT_MAX], room[SIZE_TEXT_MAX];

        if (limit->row->kind == PROTO_LIMIT_LEASES)
                (void)printf("  now: a %s may have %" PRIu64
                             " leases (gpumemctl limits), none of them more\n",
                             scope, limit->row->max);
        else
                (void)printf("  now: a %s may have %s of %s memory (gpumemctl limits), %s of it "
                             "more\n",
                             scope, size_format(limit->row->max, max),
                             limit->row->kind == PROTO_LIMIT_DEVICE_BYTES ? "device" : "pinned",
                             size_format(limit->room, room));
}

static int print_now(const struct present *present, const struct event_row *row)
{
        const struct want_limit limit = limit_in_the_way(present, row);
        const struct want_rows rows = rows_of(present);
        const struct stats_row *stats = stats_of(present, row->pool);
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX];
        char idle[SIZE_TEXT_MAX], room[SIZE_TEXT_MAX];
        struct want_holders holders;
        int r;

        if (limit.row) {
                print_limit(&limit);
                return 0;
        }
        if (!stats)
                return 0;
        r = want_find_holders(&rows, row->pool, &holders);
        if (r)
                return r;
        (void)printf("  now: %s of %s reserved, %s leased (%s idle); %s could be had%s",
                     size_format(stats->reserved, reserved), size_format(stats->max, max),
                     size_format(stats->leased, leased), size_format(stats->idle, idle),
                     size_format(want_room(stats), room),
                     want_room(stats) >= row->bytes ? ", which is enough" : "");
        print_holders(&holders);
        (void)printf("\n");
        return 0;
}

static int print_refusal(const struct present *present, const struct event_row *row)
{
        char time[HAPPENED_TIME_MAX], size[SIZE_TEXT_MAX];

        happened_time(row, time);
        (void)printf("%s  %s (pid %" PRIu32 "), uid %" PRIu32
                     "%s%s, was refused %s of pool %" PRIu32,
                     time, row->program, row->pid, row->uid, *row->container ? " in " : "",
                     row->container, size_format(row->bytes, size), row->pool);
        if (row->times > 1)
                (void)printf(", in %" PRIu32 " requests", row->times);
        (void)printf(":\n  %s\n", row->text);
        return print_now(present, row);
}

static void print_nothing(const struct why *why, const struct happened *happened)
{
        (void)printf("nothing was refused for want of memory");
        if (why->pid)
                (void)printf(" to process %" PRIu32, why->pid);
        if (why->has_uid)
                (void)printf(" %s user %" PRIu32, why->pid ? "of" : "to", why->uid);
        (void)printf("%s\n", happened->n_lost ? ", as far as gpumemd remembers" : "");
}

static int print_lines(const struct why *why, const struct present *present,
                       const struct happened *happened)
{
        int r = 0;

        for (uint32_t i = 0; i < happened->n && !r; i++)
                r = print_refusal(present, &happened->rows[i]);
        if (!r && !happened->n)
                print_nothing(why, happened);
        return r;
}

static json_t *holders_to_json(const struct want_holders *holders)
{
        json_t *array = json_array();

        for (unsigned i = 0; i < holders->n; i++) {
                const struct want_holder *holder = &holders->largest[i];

                (void)json_array_append_new(
                        array, json_pack("{s:I, s:I, s:s, s:I}", "pid", json_figure(holder->pid),
                                         "uid", json_figure(holder->uid), "program",
                                         holder->program, "bytes", json_figure(holder->n_bytes)));
        }
        return array;
}

/* NULL: there is no memory for it. */
static json_t *now_to_json(const struct present *present, const struct event_row *row)
{
        const struct stats_row *stats = stats_of(present, row->pool);
        const struct want_rows rows = rows_of(present);
        struct want_holders holders;

        if (!stats)
                return json_null();
        if (want_find_holders(&rows, row->pool, &holders))
                return NULL;
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I}", "max_bytes",
                         json_figure(stats->max), "reserved_bytes", json_figure(stats->reserved),
                         "leased_bytes", json_figure(stats->leased), "idle_bytes",
                         json_figure(stats->idle), "cached_bytes", json_figure(stats->cached),
                         "lingering_bytes", json_figure(stats->lingering), "room_bytes",
                         json_figure(want_room(stats)), "holders", holders_to_json(&holders),
                         "more_bytes", json_figure(holders.n_more_bytes), "others_bytes",
                         json_figure(holders.n_others_bytes));
}

static int print_json(const struct present *present, const struct happened *happened)
{
        json_t *array = json_array();

        for (uint32_t i = 0; i < happened->n; i++) {
                json_t *refusal = happened_to_json(&happened->rows[i]);

                (void)json_object_set_new(refusal, "now", now_to_json(present, &happened->rows[i]));
                (void)json_array_append_new(array, refusal);
        }
        return print_json_value(json_pack("{s:o, s:I}", "refusals", array, "lost_count",
                                          json_figure(happened->n_lost)));
}

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(present_deinit)
        struct present present = {.figures = {.n = 0}};
        CLEANUP(happened_deinit)
        struct happened happened = {.rows = NULL};
        int r = happened_fetch(link, 0, HAPPENED_BIT(REFUSED) | HAPPENED_BIT(STOPPING), &happened);
        bool ends;

        if (!r)
                r = fetch_present(link, &present);
        if (r)
                return report_refusal(link, "why-oom", r);
        ends = happened_has_end(&happened);
        choose(arguments->own, &happened);
        if (arguments->output == OUTPUT_JSON)
                return print_json(&present, &happened);
        r = print_lines(arguments->own, &present, &happened);
        if (ends)
                (void)puts(HAPPENED_END);
        return r ? report_failure("why-oom", r) : STATUS_OK;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct why *why = arguments->own;
        uint64_t number;

        if (id == WHY_UID) {
                if (value_user(value, &why->uid))
                        return value_wrong("--uid", value, "user", "a uid, or the name of one");
                why->has_uid = true;
                return 0;
        }
        if (value_number(value, &number) || !number || number > INT32_MAX)
                return value_wrong(id == WHY_PID ? "--pid" : "--last", value,
                                   id == WHY_PID ? "process" : "number", "1 to 2147483647");
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
        .line = "what was refused for want of memory, and how it is now",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct why),
};
