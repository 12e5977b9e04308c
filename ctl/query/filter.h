/* Which rows of a listing are shown, and in which order. Pure. */
#pragma once

#include <stdbool.h>

#include "proto/listing.h"

#define VIEW_FILTERS_MAX 8

enum view_match { VIEW_EQUAL, VIEW_AT_LEAST };

struct view {
        unsigned n_filters;
        struct view_filter {
                const struct row_field *field;
                enum view_match match;
                uint64_t value;
        } filters[VIEW_FILTERS_MAX];
        const struct row_field *sort; /* NULL: as the daemon listed them */
        bool is_reverse;              /* of `sort` */
};

/* The field of that name; NULL if there is none. */
const struct row_field *view_field(const struct row_list *list, const char *name);

/* Only rows whose number in the field of that name is so; an earlier filter of the field is replaced. */
void view_add_filter(struct view *view, const struct row_list *list, const char *name,
                     enum view_match match, uint64_t value);

/* Sorts by the column with this heading, in either case. -EINVAL: there is none. */
int view_set_sort(struct view *view, const struct row_list *list, const char *heading);

/* All of them, as view_set_sort takes them: "block, pool, kind". Cut to fit. */
void view_list_columns(const struct row_list *list, char *text, size_t n_bytes);

/* Moves those that are shown to the front, in order; equal ones stay as they stood. Returns how many they
 * are. -ENOMEM. */
int view_apply(const struct view *view, const struct row_list *list, char *rows, uint32_t n_rows,
               uint32_t *ret_n_rows);
