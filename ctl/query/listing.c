/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/listing.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/connection/query.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"

/* Columns of a name in a narrow table. */
#define NARROW_TEXT_MAX 11

const struct listing listing_clients = {"clients", MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                        &client_row_list};
const struct listing listing_blocks = {"blocks", MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY,
                                       &block_row_list};
const struct listing listing_tenants = {"tenants", MESSAGE_TENANTS, MESSAGE_TENANTS_REPLY,
                                        &tenant_row_list};

void listed_deinit(struct listed *listed)
{
        free(listed->rows);
}

static void format_properties(char *cell, uint64_t properties)
{
        (void)snprintf(cell, TABLE_CELL_MAX, "%s%s%s%s",
                       properties & PROTO_PROPERTY_SHAREABLE ? "shareable " : "",
                       properties & PROTO_PROPERTY_REGISTERED ? "registered " : "",
                       properties & PROTO_PROPERTY_RDMA ? "rdma " : "",
                       properties & PROTO_PROPERTY_FABRIC ? "fabric " : "");
        if (*cell)
                cell[strlen(cell) - 1] = '\0';
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "-");
}

/* What stands for "none" in a number. */
static bool is_absent(enum row_unit unit, uint64_t value)
{
        if (unit == ROW_UNIT_uid || unit == ROW_UNIT_any_id)
                return value == LISTING_NOBODY;
        if (unit == ROW_UNIT_pid || unit == ROW_UNIT_serial || unit == ROW_UNIT_kind ||
            unit == ROW_UNIT_reason)
                return value == 0;
        return value == LISTING_UNTOLD;
}

static void format_number(char *cell, enum row_unit unit, uint64_t value)
{
        if (is_absent(unit, value))
                (void)snprintf(cell, TABLE_CELL_MAX, "-");
        else if (unit == ROW_UNIT_bytes)
                format_bytes(cell, value);
        else if (unit == ROW_UNIT_ms)
                format_time(cell, value);
        else if (unit == ROW_UNIT_kind)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", format_pool_kind(value));
        else if (unit == ROW_UNIT_client_state)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", listed_client_name(value));
        else if (unit == ROW_UNIT_block_state)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", listed_block_name(value));
        else if (unit == ROW_UNIT_event)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", listed_event_name(value));
        else if (unit == ROW_UNIT_reason)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", listed_reason_name(value));
        else if (unit == ROW_UNIT_properties)
                format_properties(cell, value);
        else
                format_count(cell, value);
}

static void put_cell(char *cell, const struct row_field *field, const char *row)
{
        const char *text = row + field->offset;

        if (field->type == ROW_TYPE_TEXT)
                (void)snprintf(cell, TABLE_CELL_MAX, "%.*s", (int)field->n_bytes,
                               *text ? text : "-");
        else
                format_number(cell, field->unit, row_value(field, row));
}

static enum table_align align_of(const struct row_field *field)
{
        switch (field->unit) {
        case ROW_UNIT_text:
        case ROW_UNIT_kind:
        case ROW_UNIT_properties:
        case ROW_UNIT_client_state:
        case ROW_UNIT_block_state:
        case ROW_UNIT_event:
        case ROW_UNIT_reason:
                return TABLE_LEFT;
        case ROW_UNIT_bytes:
        case ROW_UNIT_count:
        case ROW_UNIT_ms:
        case ROW_UNIT_id:
        case ROW_UNIT_any_id:
        case ROW_UNIT_serial:
        case ROW_UNIT_pid:
        case ROW_UNIT_uid:
                break;
        }
        return TABLE_RIGHT;
}

/* Of a row's fields those that are columns. */
struct columns {
        const struct row_list *list;
        const char *const *names; /* the last is NULL; NULL: all that have a heading */
};

static bool is_column(const struct columns *columns, const struct row_field *field)
{
        if (!columns->names)
                return *field->heading;
        for (unsigned i = 0; columns->names[i]; i++) {
                if (strcmp(columns->names[i], field->name) == 0)
                        return true;
        }
        return false;
}

/* Names differ most in length: they stand last, wherever rows have them. */
static const struct row_field *column(const struct columns *columns, unsigned n)
{
        const struct row_list *list = columns->list;

        for (unsigned of_text = 0; of_text < 2; of_text++) {
                for (unsigned i = 0; i < list->n_fields; i++) {
                        const struct row_field *field = &list->fields[i];

                        if (is_column(columns, field) &&
                            (field->type == ROW_TYPE_TEXT) == of_text && n-- == 0)
                                return field;
                }
        }
        return NULL;
}

/* What is longer is cut, and ends with a '+'. */
static void shorten_text(char *cell)
{
        if (table_width(cell) > NARROW_TEXT_MAX)
                memcpy(cell + table_fit(cell, NARROW_TEXT_MAX - 1), "+", sizeof("+"));
}

/* In a narrow table sizes and names are short, too. */
static void fill_cell(char *cell, const struct columns *columns, const struct row_field *field,
                      const char *row)
{
        if (columns->names && field->unit == ROW_UNIT_bytes &&
            !is_absent(field->unit, row_value(field, row)))
                format_short_bytes(cell, row_value(field, row));
        else
                put_cell(cell, field, row);
        if (columns->names && field->type == ROW_TYPE_TEXT)
                shorten_text(cell);
}

static int print_table(const struct listing *listing, const struct columns *columns,
                       const struct listed *listed)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;
        const struct row_list *list = listing->list;
        const struct row_field *field;

        /* Rows end alike. */
        for (unsigned i = 0; (field = column(columns, i)); i++)
                table_add_column(&table, field->heading,
                                 column(columns, i + 1) ? align_of(field) : TABLE_RIGHT);
        for (uint32_t n = 0; n < listed->n_rows; n++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure(listing->name, -ENOMEM);
                for (unsigned i = 0; (field = column(columns, i)); i++)
                        fill_cell(row->cells[i], columns, field,
                                  listed->rows + n * list->n_row_bytes);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

/* Quantities say their unit in their name, as those of stats do. */
static void name_field(char *name, size_t n_name, const struct row_field *field)
{
        const char *unit = "";

        if (field->unit == ROW_UNIT_bytes)
                unit = strcmp(field->name, "bytes") == 0 ? "" : "_bytes";
        else if (field->unit == ROW_UNIT_count)
                unit = "_count";
        else if (field->unit == ROW_UNIT_ms)
                unit = "_ms";
        (void)snprintf(name, n_name, "%s%s", field->name, unit);
}

static json_t *text_to_json(const char *text)
{
        return *text ? json_string(text) : json_null();
}

static json_t *value_to_json(const struct row_field *field, const char *row)
{
        char text[TABLE_CELL_MAX];
        uint64_t value;

        if (field->type == ROW_TYPE_TEXT)
                return text_to_json(row + field->offset);
        value = row_value(field, row);
        if (is_absent(field->unit, value) || (field->unit == ROW_UNIT_properties && !value))
                return json_null();
        if (align_of(field) == TABLE_RIGHT)
                return json_integer(json_figure(value));
        put_cell(text, field, row);
        return json_string(text);
}

json_t *listing_row_to_json(const struct row_list *list, const char *row)
{
        json_t *object = json_object();

        for (unsigned i = 0; i < list->n_fields; i++) {
                char name[TABLE_CELL_MAX];

                name_field(name, sizeof(name), &list->fields[i]);
                (void)json_object_set_new(object, name, value_to_json(&list->fields[i], row));
        }
        return object;
}

static int print_listing_json(const struct listing *listing, const struct listed *listed)
{
        json_t *rows = json_array();

        for (uint32_t n = 0; n < listed->n_rows; n++)
                (void)json_array_append_new(
                        rows, listing_row_to_json(listing->list,
                                                  listed->rows + n * listing->list->n_row_bytes));
        return print_json_value(json_pack("{s:o}", listing->name, rows));
}

/* What a terminal would carry out is not for it. */
void listing_clean(const struct row_list *list, char *row)
{
        for (unsigned i = 0; i < list->n_fields; i++) {
                const struct row_field *field = &list->fields[i];

                if (field->type == ROW_TYPE_TEXT)
                        screen_clean(row + field->offset, field->n_bytes);
        }
}

int listing_fetch(struct link *link, const struct listing *listing, struct frame *request,
                  struct listed *ret_listed)
{
        const struct query query = {listing->request, listing->reply, listing->list->n_row_bytes};
        uint32_t n_rows;
        void *rows;
        int r = query_ask(link, &query, request, NULL, &rows, &n_rows);

        if (r)
                return r;
        for (uint32_t n = 0; n < n_rows; n++)
                listing_clean(listing->list, (char *)rows + n * listing->list->n_row_bytes);
        *ret_listed = (struct listed){.n_rows = n_rows, .rows = rows};
        return 0;
}

/* An empty table would leave open whether an option was mistyped. On stderr: the table is for programs, too. */
static void tell_if_none(const struct listing *listing, const struct listed *listed,
                         const struct filter *filter)
{
        const struct row_field *pid = filter_field(listing->list, "pid");

        if (listed->n_rows)
                return;
        /* With another rule beside it there may be some, which that one does not choose. */
        if (filter->n_rules == 1 && filter->rules[0].field == pid)
                (void)fprintf(stderr, "gpumemctl: no %s have pid %" PRIu64 "\n", listing->name,
                              filter->rules[0].value);
        else
                (void)fprintf(stderr, "gpumemctl: there are no %s%s\n", listing->name,
                              filter->n_rules ? " that these options choose" : "");
}

int listing_show(struct link *link, const struct listing *listing, const char *const *narrow,
                 struct frame *request, const struct arguments *arguments,
                 const struct filter *filter)
{
        const struct columns columns = {
                .list = listing->list,
                .names = arguments->output == OUTPUT_WIDE ? NULL : narrow,
        };
        CLEANUP(listed_deinit)
        struct listed listed = {.n_rows = 0};
        int r = listing_fetch(link, listing, request, &listed);

        if (!r)
                r = filter_apply(filter, listing->list, listed.rows, listed.n_rows, &listed.n_rows);
        if (r)
                return report_refusal(link, listing->name, r);
        if (arguments->output == OUTPUT_JSON)
                return print_listing_json(listing, &listed);
        tell_if_none(listing, &listed, filter);
        return print_table(listing, &columns, &listed);
}
