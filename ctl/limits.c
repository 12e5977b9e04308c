#include "ctl/limits.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/rows.h"
#include "ctl/commands.h"
#include "ctl/table.h"
#include "gpumem.h"

const char limits_help_text[] =
        "Usage: gpumemctl [OPTION]... limits [--set WHO:WHAT=MAX]...\n"
        "Shows what clients, tenants and pools may have at most; changes it with --set.\n"
        "\n"
        "  WHO   client       each client: one program's connection\n"
        "        tenant       each tenant: all clients of one user\n"
        "        tenant/USER  this one, by name or uid\n"
        "        pool/ID      one pool; gpumemctl stats lists them\n"
        "  WHAT  device_bytes, pinned_bytes, leases: charged to a client or a tenant\n"
        "        max_bytes: reserved by a pool\n"
        "  MAX   a number, a size such as 12GiB, or none; for tenant/USER also default: as each\n"
        "        tenant's\n"
        "\n"
        "  --json         for programs: sizes in bytes\n"
        "  --socket PATH  where gpumemd listens\n"
        "\n"
        "A lower limit takes nothing away: it refuses what would pass it. Limits set here hold\n"
        "until gpumemd ends or reads its configuration again (SIGHUP). Only root and the daemon's\n"
        "own user may set them, and see those of others.\n"
        "Example: gpumemctl limits --set tenant/1000:device_bytes=4GiB --set client:leases=100\n";

static const char *scope_name(uint32_t scope)
{
        switch (scope) {
        case PROTO_LIMIT_OF_CLIENT:
                return "client";
        case PROTO_LIMIT_OF_TENANT:
                return "tenant";
        case PROTO_LIMIT_OF_POOL:
                return "pool";
        default:
                return "?";
        }
}

static const char *kind_name(uint32_t kind)
{
        switch (kind) {
        case PROTO_LIMIT_DEVICE_BYTES:
                return "device_bytes";
        case PROTO_LIMIT_PINNED_BYTES:
                return "pinned_bytes";
        case PROTO_LIMIT_LEASES:
                return "leases";
        case PROTO_LIMIT_RESERVED_BYTES:
                return "max_bytes";
        default:
                return "?";
        }
}

static void format_amount(char *cell, uint32_t kind, uint64_t n)
{
        char text[SIZE_TEXT_MAX];

        if (kind == PROTO_LIMIT_LEASES)
                (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, n);
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", size_format(n, text));
}

static void fill_row(struct table_row *row, const struct limit_row *limit)
{
        bool is_default = limit->holder == PROTO_LIMIT_OF_EACH;

        (void)snprintf(row->cells[0], TABLE_CELL_MAX, "%s", scope_name(limit->scope));
        if (is_default)
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "each");
        else
                (void)snprintf(row->cells[1], TABLE_CELL_MAX, "%" PRIu32, limit->holder);
        (void)snprintf(row->cells[2], TABLE_CELL_MAX, "%s", kind_name(limit->kind));
        if (is_default)
                (void)snprintf(row->cells[3], TABLE_CELL_MAX, "-");
        else
                format_amount(row->cells[3], limit->kind, limit->used);
        format_amount(row->cells[4], limit->kind, limit->max);
        (void)snprintf(row->cells[5], TABLE_CELL_MAX, "%s", limit->name);
}

static int print_table(const struct limit_row *rows, uint32_t n)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_column(&table, "SCOPE", TABLE_LEFT);
        table_add_column(&table, "HOLDER", TABLE_RIGHT);
        table_add_column(&table, "LIMIT", TABLE_LEFT);
        table_add_column(&table, "USED", TABLE_RIGHT);
        table_add_column(&table, "OF", TABLE_RIGHT);
        table_add_column(&table, "NAME", TABLE_LEFT);
        for (uint32_t i = 0; i < n; i++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("limits", -ENOMEM);
                fill_row(row, &rows[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

/* A default has no holder and nothing used. */
static json_t *to_json(const struct limit_row *row)
{
        if (row->holder == PROTO_LIMIT_OF_EACH)
                return json_pack("{s:s, s:s, s:I}", "scope", scope_name(row->scope), "limit",
                                 kind_name(row->kind), "max", (json_int_t)row->max);
        return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "scope", scope_name(row->scope),
                         "holder", (json_int_t)row->holder, "name", row->name, "limit",
                         kind_name(row->kind), "used", (json_int_t)row->used, "max",
                         (json_int_t)row->max);
}

static int print_json(const struct limit_row *rows, uint32_t n)
{
        json_t *limits = json_array();

        for (uint32_t i = 0; i < n; i++)
                (void)json_array_append_new(limits, to_json(&rows[i]));
        return print_json_value(json_pack("{s:o}", "limits", limits));
}

static int show(struct link *link, enum output output)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        CLEANUP(freep)
        void *sent = NULL;
        struct frame request = FRAME_NULL, reply;
        struct limit_row *rows;
        uint32_t n;
        int r;

        r = link_call(link, &request, MESSAGE_LIMITS, MESSAGE_LIMITS_REPLY, &reply, &fds);
        if (!r)
                r = rows_read(fds.fds[0], reply.limits_reply.n_rows, reply.limits_reply.n_row_bytes,
                              sizeof(*rows), &sent);
        if (r)
                return report_failure("limits", r);
        rows = sent;
        n = reply.limits_reply.n_rows;
        for (uint32_t i = 0; i < n; i++)
                rows[i].name[sizeof(rows[i].name) - 1] = '\0';
        return output == OUTPUT_JSON ? print_json(rows, n) : print_table(rows, n);
}

static int set(struct link *link, const struct limit_change *change)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.set_limits = (struct message_set_limits){
                .scope = change->scope,
                .holder = change->holder,
                .kind = change->kind,
                .max = change->max,
        };
        return link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds);
}

int command_limits(struct link *link, const struct arguments *arguments)
{
        for (unsigned i = 0; i < arguments->n_changes; i++) {
                int r = set(link, &arguments->changes[i]);
                char refusal[LINK_REFUSAL_MAX] = "";
                char what[LINK_REFUSAL_MAX + 64];

                if (!r)
                        continue;
                if (r > 0)
                        link_refusal(link, refusal);
                (void)snprintf(what, sizeof(what), "limits: change %u of %u%s%s", i + 1,
                               arguments->n_changes, *refusal ? ": " : "", refusal);
                return report_failure(what, r);
        }
        return arguments->n_changes ? STATUS_OK : show(link, arguments->output);
}
