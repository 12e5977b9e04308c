/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/filter.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

const struct row_field *filter_field(const struct row_list *list, const char *name)
{
        for (unsigned i = 0; i < list->n_fields; i++) {
                if (strcmp(list->fields[i].name, name) == 0)
                        return &list->fields[i];
        }
        return NULL;
}

void filter_add(struct filter *filter, const struct row_list *list, const char *name,
                enum filter_match match, uint64_t value)
{
        const struct row_field *field = filter_field(list, name);
        unsigned i = 0;

        assert(field && field->type != ROW_TYPE_TEXT);
        while (i < filter->n_rules &&
               (filter->rules[i].field != field || filter->rules[i].match != match))
                i++;
        assert(i < FILTER_RULES_MAX);
        filter->rules[i] = (struct filter_rule){field, match, value};
        if (i == filter->n_rules)
                filter->n_rules++;
}

int filter_set_sort(struct filter *filter, const struct row_list *list, const char *heading)
{
        for (unsigned i = 0; i < list->n_fields; i++) {
                const struct row_field *field = &list->fields[i];

                if (*field->heading && strcasecmp(field->heading, heading) == 0) {
                        filter->sort = field;
                        return 0;
                }
        }
        return -EINVAL;
}

void filter_list_columns(const struct row_list *list, char *text, size_t n_bytes)
{
        size_t n = 0;

        assert(n_bytes > 0);
        *text = '\0';
        for (unsigned i = 0; i < list->n_fields && n < n_bytes; i++) {
                const struct row_field *field = &list->fields[i];

                if (*field->heading)
                        n += (size_t)snprintf(text + n, n_bytes - n, "%s%s", n ? ", " : "",
                                              field->heading);
        }
        for (; *text; text++) {
                if (*text >= 'A' && *text <= 'Z')
                        *text = (char)(*text - 'A' + 'a');
        }
}

static bool is_shown(const struct filter *filter, const char *row)
{
        for (unsigned i = 0; i < filter->n_rules; i++) {
                const struct filter_rule *rule = &filter->rules[i];
                uint64_t value = row_value(rule->field, row);

                if (rule->match == FILTER_EQUAL ? value != rule->value : value < rule->value)
                        return false;
        }
        return true;
}

/* What a state is called, not its number: people see that. */
static const char *name_of(const struct row_field *field, const char *row)
{
        if (field->unit == ROW_UNIT_block_state)
                return listed_block_name(row_value(field, row));
        if (field->unit == ROW_UNIT_client_state)
                return listed_client_name(row_value(field, row));
        return NULL;
}

/* What a row of other tenants does not tell is no amount. */
static uint64_t amount_of(const struct row_field *field, const char *row)
{
        uint64_t value = row_value(field, row);

        return value == LISTING_UNTOLD ? 0 : value;
}

/* A number that names something; none stands last. */
static uint64_t name_number_of(const struct row_field *field, const char *row)
{
        uint64_t value = row_value(field, row);
        bool is_none = !value && (field->unit == ROW_UNIT_pid || field->unit == ROW_UNIT_serial);

        return is_none ? UINT64_MAX : value;
}

static int compare_by(const struct row_field *field, const char *a, const char *b)
{
        if (field->type == ROW_TYPE_TEXT)
                return strncmp(a + field->offset, b + field->offset, field->n_bytes);
        if (name_of(field, a))
                return strcmp(name_of(field, a), name_of(field, b));
        if (field->unit == ROW_UNIT_bytes || field->unit == ROW_UNIT_count ||
            field->unit == ROW_UNIT_ms)
                return (amount_of(field, a) < amount_of(field, b)) -
                       (amount_of(field, a) > amount_of(field, b));
        return (name_number_of(field, a) > name_number_of(field, b)) -
               (name_number_of(field, a) < name_number_of(field, b));
}

/* By the columns from the left, until two differ. */
static int compare_columns(const struct row_list *list, const char *a, const char *b)
{
        int order = 0;

        for (unsigned i = 0; i < list->n_fields && !order; i++) {
                if (*list->fields[i].heading)
                        order = compare_by(&list->fields[i], a, b);
        }
        return order;
}

struct order {
        const struct filter *filter;
        const struct row_list *list;
};

static int compare(const void *left, const void *right, void *context)
{
        const struct order *rule = context;
        const struct filter *filter = rule->filter;
        const char *a = *(const char *const *)left, *b = *(const char *const *)right;
        int order = filter->sort ? compare_by(filter->sort, a, b) : 0;

        if (!order)
                order = compare_columns(rule->list, a, b);
        /* Rows of an array: the addresses say which stood first. */
        if (!order)
                order = (a > b) - (a < b);
        return filter->is_reverse ? -order : order;
}

int filter_apply(const struct filter *filter, const struct row_list *list, char *rows,
                 uint32_t n_rows, uint32_t *ret_n_rows)
{
        CLEANUP(freep)
        const char **order = calloc((size_t)n_rows + 1, sizeof(*order));
        CLEANUP(freep)
        char *copy = malloc((size_t)n_rows * list->n_row_bytes + 1);
        struct order rule = {filter, list};
        uint32_t n = 0;

        if (!order || !copy)
                return -ENOMEM;
        for (uint32_t i = 0; i < n_rows; i++) {
                const char *row = rows + i * list->n_row_bytes;

                if (is_shown(filter, row))
                        order[n++] = row;
        }
        qsort_r(order, n, sizeof(*order), compare, &rule);
        for (uint32_t i = 0; i < n; i++)
                memcpy(copy + i * list->n_row_bytes, order[i], list->n_row_bytes);
        if (n)
                memcpy(rows, copy, n * list->n_row_bytes);
        *ret_n_rows = n;
        return 0;
}
