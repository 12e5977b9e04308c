#include "ctl/query/filter.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

const struct row_field *view_field(const struct row_list *list, const char *name)
{
        for (unsigned i = 0; i < list->n_fields; i++) {
                if (strcmp(list->fields[i].name, name) == 0)
                        return &list->fields[i];
        }
        return NULL;
}

void view_add_filter(struct view *view, const struct row_list *list, const char *name,
                     enum view_match match, uint64_t value)
{
        const struct row_field *field = view_field(list, name);
        unsigned i = 0;

        assert(field && field->type != ROW_TYPE_TEXT);
        while (i < view->n_filters &&
               (view->filters[i].field != field || view->filters[i].match != match))
                i++;
        assert(i < VIEW_FILTERS_MAX);
        view->filters[i] = (struct view_filter){field, match, value};
        if (i == view->n_filters)
                view->n_filters++;
}

int view_set_sort(struct view *view, const struct row_list *list, const char *heading)
{
        for (unsigned i = 0; i < list->n_fields; i++) {
                const struct row_field *field = &list->fields[i];

                if (*field->heading && strcasecmp(field->heading, heading) == 0) {
                        view->sort = field;
                        return 0;
                }
        }
        return -EINVAL;
}

void view_list_columns(const struct row_list *list, char *text, size_t n_bytes)
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

static bool is_shown(const struct view *view, const char *row)
{
        for (unsigned i = 0; i < view->n_filters; i++) {
                const struct view_filter *filter = &view->filters[i];
                uint64_t value = row_value(filter->field, row);

                if (filter->match == VIEW_EQUAL ? value != filter->value : value < filter->value)
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

static int compare(const void *left, const void *right, void *context)
{
        const struct view *view = context;
        const struct row_field *field = view->sort;
        const char *a = *(const char *const *)left, *b = *(const char *const *)right;
        int order = 0;

        if (field && field->type == ROW_TYPE_TEXT)
                order = strncmp(a + field->offset, b + field->offset, field->n_bytes);
        else if (field && name_of(field, a))
                order = strcmp(name_of(field, a), name_of(field, b));
        else if (field)
                order = (row_value(field, a) > row_value(field, b)) -
                        (row_value(field, a) < row_value(field, b));
        /* Rows of an array: the addresses say which stood first. */
        if (!order)
                return (a > b) - (a < b);
        return view->is_reverse ? -order : order;
}

int view_apply(const struct view *view, const struct row_list *list, char *rows, uint32_t n_rows,
               uint32_t *ret_n_rows)
{
        CLEANUP(freep)
        const char **order = calloc((size_t)n_rows + 1, sizeof(*order));
        CLEANUP(freep)
        char *copy = malloc((size_t)n_rows * list->n_row_bytes + 1);
        uint32_t n = 0;

        if (!order || !copy)
                return -ENOMEM;
        for (uint32_t i = 0; i < n_rows; i++) {
                const char *row = rows + i * list->n_row_bytes;

                if (is_shown(view, row))
                        order[n++] = row;
        }
        qsort_r(order, n, sizeof(*order), compare, (void *)view);
        for (uint32_t i = 0; i < n; i++)
                memcpy(copy + i * list->n_row_bytes, order[i], list->n_row_bytes);
        if (n)
                memcpy(rows, copy, n * list->n_row_bytes);
        *ret_n_rows = n;
        return 0;
}
