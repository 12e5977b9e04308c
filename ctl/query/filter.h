/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a listing are shown, and in which order. Pure. */
#pragma once

#include <stdbool.h>

#include "proto/listing.h"

#define FILTER_RULES_MAX 8

enum filter_match { FILTER_EQUAL, FILTER_AT_LEAST };

struct filter {
        unsigned n_rules;
        struct filter_rule {
                const struct row_field *field;
                enum filter_match match;
                uint64_t value;
        } rules[FILTER_RULES_MAX];
        const struct row_field *sort; /* NULL: by the columns from the left */
        bool is_reverse;              /* the whole list the other way round */
};

/* The field of that name; NULL if there is none. */
const struct row_field *filter_field(const struct row_list *list, const char *name);

/* Only rows whose number in the field of that name is so; an earlier rule of the field is replaced. */
void filter_add(struct filter *filter, const struct row_list *list, const char *name,
                enum filter_match match, uint64_t value);

/* Sorts by the column with this heading, in either case: amounts and ages the largest first, as gpumemctl top does;
 * names, and numbers that name something, the smallest first. -EINVAL: there is none. */
int filter_set_sort(struct filter *filter, const struct row_list *list, const char *heading);

/* All of them, as filter_set_sort takes them: "block, pool, kind". Cut to fit. */
void filter_list_columns(const struct row_list *list, char *text, size_t n_bytes);

/* Moves those that are shown to the front, in order; where the column that sorts is equal, by the columns from the left. Returns how many
 * they are. -ENOMEM. */
int filter_apply(const struct filter *filter, const struct row_list *list, char *rows,
                 uint32_t n_rows, uint32_t *ret_n_rows);
