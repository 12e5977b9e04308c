/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/connection/query.h"
#include "ctl/commands/limit_change.h"
#include "ctl/commands/limit_file.h"
#include "ctl/core/command.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "gpumem.h"
#include "proto/listing.h"

static const char help[] =
        "Usage: gpumemctl limits [--set WHO:WHAT=N]... [OPTION]...\n"
        "Shows the limits of clients, tenants and pools; --set changes one.\n"
        "\n"
        "  WHO   client       each client, that is each program's connection\n"
        "        tenant       each tenant: a user in a container, or as configured\n"
        "        tenant/USER  each tenant of this user; a name or a uid\n"
        "        pool/ID      one pool; gpumemctl stats lists the pools\n"
        "  WHAT  device_bytes, pinned_bytes, leases: charged to a client or a tenant\n"
        "        max_bytes: reserved by a pool; min_bytes: idle leases that each tenant\n"
        "        keeps; keep_cached_bytes: unused memory that stays in the pool;\n"
        "        return_after_seconds: how long the rest stays; keep_free_bytes: what\n"
        "        stays free on the device\n"
        "  N     a number; a size such as 12GiB (12G and 12GB mean the same); none, but\n"
        "        not for the last four; default, for tenant/USER: as each tenant\n"
        "\n"
        "  --save[=FILE]  writes the changes into the configuration, too; default: the\n"
        "                 file that gpumemd was started with\n"
        "  --json         for programs: sizes in bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "\n"
        "If one of several changes is refused, none is made. Memory in use stays.\n"
        "Without --save limits hold until gpumemd ends or reads its configuration again.\n"
        "Setting them needs root, or access to the admin socket.\n"
        "Example: gpumemctl limits --set tenant/1000:device_bytes=4GiB\n";

enum { LIMITS_SET = OPTION_OWN, LIMITS_SAVE };

static void format_amount(char *cell, uint32_t kind, uint64_t n)
{
        char text[SIZE_TEXT_MAX];

        if (n == PROTO_LIMIT_NONE)
                (void)snprintf(cell, TABLE_CELL_MAX, "none");
        else if (n == PROTO_LIMIT_INHERIT)
                (void)snprintf(cell, TABLE_CELL_MAX, "default");
        else if (kind == PROTO_LIMIT_LEASES || kind == PROTO_LIMIT_RETURN_SECONDS)
                (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, n);
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", size_format(n, text));
}

static bool has_usage(const struct limit_row *limit)
{
        return limit->kind <= PROTO_LIMIT_RESERVED_BYTES || limit->kind == PROTO_LIMIT_CACHED_BYTES;
}

static void fill_row(struct table_row *row, const struct limit_row *limit)
{
        bool is_default = limit->holder == PROTO_LIMIT_OF_EACH;

        (void)snprintf(row->cells[0], TABLE_CELL_MAX, "%s", limit_scope_name(limit->scope));
        if (is_default)
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "each");
        else
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "%" PRIu32, limit->holder);
        (void)snprintf(row->cells[2], TABLE_CELL_MAX, "%s", limit_kind_name(limit->kind));
        if (is_default || !has_usage(limit))
                (void)snprintf(row->cells[3], TABLE_CELL_MAX, "-");
        else
                format_amount(row->cells[3], limit->kind, limit->used);
        format_amount(row->cells[4], limit->kind, limit->max);
        (void)snprintf(row->cells[5], TABLE_CELL_MAX, "%s", *limit->name ? limit->name : "-");
}

static int print_table(const struct limit_row *rows, uint32_t n)
{
        static const struct table_column columns[] = {
                {"SCOPE", TABLE_LEFT}, {"HOLDER", TABLE_RIGHT}, {"LIMIT", TABLE_LEFT},
                {"USED", TABLE_RIGHT}, {"OF", TABLE_RIGHT},     {"NAME", TABLE_LEFT},
        };
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_columns(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < n; i++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("limits", -ENOMEM);
                fill_row(row, &rows[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static json_t *number_or_null(bool is_there, uint64_t n)
{
        return is_there ? json_integer(json_figure(n)) : json_null();
}

static const char *unit_of(uint32_t kind)
{
        if (kind == PROTO_LIMIT_RETURN_SECONDS)
                return "seconds";
        return kind == PROTO_LIMIT_LEASES ? "count" : "bytes";
}

/* A default has no holder and nothing used, an exemption no most; a minimum is none. */
static json_t *to_json(const struct limit_row *row)
{
        bool is_held = row->holder != PROTO_LIMIT_OF_EACH;
        bool is_min = row->kind >= PROTO_LIMIT_MIN_BYTES && row->kind <= PROTO_LIMIT_FREE_BYTES;

        return json_pack("{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o}", "scope",
                         limit_scope_name(row->scope), "holder",
                         number_or_null(is_held, row->holder), "name", row->name, "limit",
                         limit_kind_name(row->kind), "unit", unit_of(row->kind), "used",
                         number_or_null(is_held && has_usage(row), row->used), "max",
                         number_or_null(row->max != PROTO_LIMIT_NONE && !is_min, row->max), "min",
                         number_or_null(is_min, row->max));
}

static int print_json(const struct limit_row *rows, uint32_t n, uint64_t revision)
{
        json_t *limits = json_array();

        for (uint32_t i = 0; i < n; i++)
                (void)json_array_append_new(limits, to_json(&rows[i]));
        return print_json_value(
                json_pack("{s:o, s:I}", "limits", limits, "revision", json_figure(revision)));
}

static int fetch(struct link *link, struct limit_row **ret_rows, uint32_t *ret_n,
                 uint64_t *ret_revision)
{
        static const struct query query = {MESSAGE_LIMITS, MESSAGE_LIMITS_REPLY,
                                           sizeof(struct limit_row)};
        struct frame request = FRAME_NULL, reply;
        struct limit_row *rows;
        int r = query_ask(link, &query, &request, &reply, (void **)&rows, ret_n);

        if (r)
                return r;
        for (uint32_t i = 0; i < *ret_n; i++)
                screen_clean(rows[i].name, sizeof(rows[i].name));
        *ret_rows = rows;
        *ret_revision = reply.limits_reply.revision;
        return 0;
}

static int show(struct link *link, enum output output)
{
        CLEANUP(freep)
        struct limit_row *rows = NULL;
        uint64_t revision;
        uint32_t n;
        int r = fetch(link, &rows, &n, &revision);

        if (r)
                return report_refusal(link, "limits", r);
        return output == OUTPUT_JSON ? print_json(rows, n, revision) : print_table(rows, n);
}

static int send_change(struct link *link, const struct limit_change *change, uint32_t flags)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.set_limits = (struct message_set_limits){
                .scope = change->scope,
                .holder = change->holder,
                .kind = change->kind,
                .flags = flags,
                .max = change->max,
        };
        return link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds);
}

/* In the order of --set. */
struct limit_changes {
        bool is_saved;
        const char *save_path; /* NULL: where the daemon says */
        unsigned n;
        struct limit_change changes[LIMIT_CHANGES_MAX];
};

/* The daemon makes all of them with the last, so that a wrong one leaves everything as it was. What fails
 * then, its death or lack of memory, may leave some made. */
static int set_all(struct link *link, const struct limit_changes *changes)
{
        unsigned n = changes->n, n_sent = 0;
        char what[96];
        int r = 0;

        while (n_sent < n && !r) {
                const struct limit_change *change = &changes->changes[n_sent++];

                r = send_change(link, change, n_sent < n ? PROTO_LIMIT_MORE : 0);
        }
        if (!r)
                return STATUS_OK;
        if (n_sent < n || r == GPUMEM_E_BAD_REQUEST || r == GPUMEM_E_DENIED)
                (void)snprintf(what, sizeof(what), "limits: nothing was changed: --set number %u",
                               n_sent);
        else
                (void)snprintf(what, sizeof(what), "limits: of %u changes some may have been made",
                               n);
        return report_refusal(link, what, r);
}

/* What the rows say of the limit that a change is about. What has no row is the default of the pool or of each tenant,
 * and else no limit. */
static uint64_t limit_in(const struct limit_row *rows, uint32_t n,
                         const struct limit_change *change)
{
        bool is_of_each = change->holder == PROTO_LIMIT_OF_EACH;

        for (uint32_t i = 0; i < n; i++) {
                if (rows[i].scope == change->scope && rows[i].holder == change->holder &&
                    rows[i].kind == change->kind)
                        return rows[i].max;
        }
        return is_of_each ? PROTO_LIMIT_NONE : PROTO_LIMIT_INHERIT;
}

static void fill_change(struct table_row *row, const struct limit_change *change, uint64_t old)
{
        (void)snprintf(row->cells[0], TABLE_CELL_MAX, "%s", limit_scope_name(change->scope));
        if (change->holder == PROTO_LIMIT_OF_EACH)
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "each");
        else
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "%" PRIu32, change->holder);
        (void)snprintf(row->cells[2], TABLE_CELL_MAX, "%s", limit_kind_name(change->kind));
        format_amount(row->cells[3], change->kind, old);
        format_amount(row->cells[4], change->kind, change->max);
}

static int print_changes(const struct limit_changes *changes, const struct limit_row *rows,
                         uint32_t n)
{
        static const struct table_column columns[] = {
                {"SCOPE", TABLE_LEFT}, {"HOLDER", TABLE_RIGHT}, {"LIMIT", TABLE_LEFT},
                {"OLD", TABLE_RIGHT},  {"NEW", TABLE_RIGHT},
        };
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_columns(&table, columns, ARRAY_SIZE(columns));
        for (unsigned i = 0; i < changes->n; i++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("limits", -ENOMEM);
                fill_change(row, &changes->changes[i], limit_in(rows, n, &changes->changes[i]));
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static json_t *amount_to_json(uint64_t n)
{
        if (n == PROTO_LIMIT_NONE || n == PROTO_LIMIT_INHERIT)
                return json_string(n == PROTO_LIMIT_NONE ? "none" : "default");
        return json_integer(json_figure(n));
}

static int print_changes_json(const struct limit_changes *changes, const struct limit_row *rows,
                              uint32_t n)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < changes->n; i++) {
                const struct limit_change *change = &changes->changes[i];
                bool is_held = change->holder != PROTO_LIMIT_OF_EACH;

                (void)json_array_append_new(list,
                                            json_pack("{s:s, s:o, s:s, s:s, s:o, s:o}", "scope",
                                                      limit_scope_name(change->scope), "holder",
                                                      number_or_null(is_held, change->holder),
                                                      "limit", limit_kind_name(change->kind),
                                                      "unit", unit_of(change->kind), "old",
                                                      amount_to_json(limit_in(rows, n, change)),
                                                      "new", amount_to_json(change->max)));
        }
        return print_json_value(json_pack("{s:o}", "changes", list));
}

/* Finds the file to save in, in `room` if the daemon says it. */
static int find_file(struct link *link, const struct limit_changes *changes,
                     char room[static LIMIT_FILE_PATH_MAX], const char **ret_path)
{
        int r;

        *ret_path = changes->save_path;
        if (!changes->is_saved || changes->save_path)
                return STATUS_OK;
        r = limit_file_find(link, room);
        if (r == -ENOENT) {
                (void)fprintf(stderr, "gpumemctl: limits: nothing was changed: gpumemd does not "
                                      "say which file configures it; name it: --save=FILE\n");
                return STATUS_FAILURE;
        }
        if (r)
                return report_refusal(link, "limits: nothing was changed", r);
        *ret_path = room;
        return STATUS_OK;
}

static int change_file(json_t *root, const struct limit_changes *changes,
                       const struct pool_stats *pools, char reason[static LIMIT_FILE_REASON_MAX])
{
        int r = 0;

        for (unsigned i = 0; i < changes->n && !r; i++)
                r = limit_file_change(root, &changes->changes[i], pools);
        if (!r)
                return limit_file_check(root, reason);
        (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "%s; see gpumemd --check-config",
                       r == -ENOMEM ? "out of memory"
                                    : "a value of \"limits\" or \"pools\" is wrong");
        return r;
}

/* The file as it will be. It is made before the daemon is asked: if it cannot be, nothing is changed. */
static int prepare_file(struct link *link, const struct limit_changes *changes, const char *path,
                        json_t **ret_root)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats pools = {.n = 0};
        char reason[LIMIT_FILE_REASON_MAX];
        int r = pool_stats_fetch(link, &pools);

        if (r)
                return report_refusal(link, "limits: nothing was changed", r);
        if (limit_file_read(path, reason, ret_root)) {
                (void)fprintf(stderr, "gpumemctl: limits: nothing was changed: %s\n", reason);
                return STATUS_FAILURE;
        }
        r = change_file(*ret_root, changes, &pools, reason);
        /* The daemon says it better. */
        if (!r || r == -ENODEV)
                return STATUS_OK;
        (void)fprintf(stderr, "gpumemctl: limits: nothing was changed: %s: %s\n", path, reason);
        return STATUS_FAILURE;
}

static int save_file(const char *path, const json_t *root)
{
        int r = path ? limit_file_write(path, root) : 0;

        if (!r)
                return STATUS_OK;
        (void)fprintf(stderr, "gpumemctl: limits: set, but not saved: %s: %s\n", path,
                      r == -EEXIST ? "not a regular file" : strerror(-r));
        return STATUS_FAILURE;
}

static void free_json(json_t **root)
{
        json_decref(*root);
}

static int change_all(struct link *link, const struct limit_changes *changes, enum output output)
{
        CLEANUP(freep)
        struct limit_row *rows = NULL;
        CLEANUP(free_json)
        json_t *root = NULL;
        char room[LIMIT_FILE_PATH_MAX];
        const char *path;
        uint64_t revision;
        bool is_new;
        uint32_t n;
        int status, r = fetch(link, &rows, &n, &revision);

        if (r)
                return report_refusal(link, "limits: nothing was changed", r);
        status = find_file(link, changes, room, &path);
        if (status == STATUS_OK && path)
                status = prepare_file(link, changes, path, &root);
        if (status == STATUS_OK)
                status = set_all(link, changes);
        if (status != STATUS_OK)
                return status;
        is_new = path && access(path, F_OK) && errno == ENOENT;
        status = save_file(path, root);
        if (is_new && status == STATUS_OK)
                (void)fprintf(stderr,
                              "gpumemctl: limits: %s was not there: the new file has these changes "
                              "only\n",
                              path);
        r = output == OUTPUT_JSON ? print_changes_json(changes, rows, n)
                                  : print_changes(changes, rows, n);
        if (path && status == STATUS_OK && output != OUTPUT_JSON)
                (void)printf("saved in %s\n", path);
        return status == STATUS_OK ? r : status;
}

static int run(struct link *link, const struct arguments *arguments)
{
        const struct limit_changes *changes = arguments->own;

        if (changes->is_saved && !changes->n) {
                (void)fprintf(stderr,
                              "gpumemctl: limits: --save needs --set; see gpumemctl help limits\n");
                return STATUS_USAGE;
        }
        return changes->n ? change_all(link, changes, arguments->output)
                          : show(link, arguments->output);
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct limit_changes *changes = arguments->own;
        int r;

        if (id == LIMITS_SAVE) {
                changes->is_saved = true;
                return value ? parse_file("--save", value, &changes->save_path) : 0;
        }
        if (changes->n == LIMIT_CHANGES_MAX) {
                (void)fprintf(stderr, "gpumemctl: too many --set options (at most %d)\n",
                              LIMIT_CHANGES_MAX);
                return -EINVAL;
        }
        r = limit_change_parse(value, &changes->changes[changes->n]);
        if (!r)
                changes->n++;
        return r;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"set", required_argument, NULL, LIMITS_SET},
        {"save", optional_argument, NULL, LIMITS_SAVE},
        COMMAND_OPTIONS_END,
};

#define HOLDER_VALUES(who, n) \
        who ":device_bytes=" n " " who ":pinned_bytes=" n " " who ":leases=" n " "

static const struct command_value values[] = {
        {"set",
         HOLDER_VALUES("client", "none") HOLDER_VALUES("tenant", "none")
                 HOLDER_VALUES("tenant/@user", "none") HOLDER_VALUES(
                         "tenant/@user",
                         "default") "pool/@pool:max_bytes=none pool/@pool:min_bytes=0 "
                                    "pool/@pool:keep_cached_bytes=0 pool/@pool:keep_free_bytes=0 "
                                    "pool/@pool:return_after_seconds=60",
         NULL},
        {"save", "@file", NULL},
        COMMAND_VALUES_END,
};

const struct command limits_command = {
        .name = "limits",
        .line = "limits of clients, tenants and pools; --set changes one",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct limit_changes),
};
