/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/tenants.h"

#include <stdlib.h>
#include <string.h>

#include "metrics/pool_sample.h"

/* The label of tenants that the asker may not see, and of those beyond the maximum, added up. */
#define OTHERS "others"

struct figure {
        const char *field;
        enum row_unit unit;
        const char *text;
        size_t offset;
};

/* 64-bit fields are numbers to show; smaller ones identify the tenant. */
static const struct figure figures_of_tenants[] = {
#define ROW_U32(field, unit, heading, text)
#define ROW_U64(field, unit, heading, text) \
        {#field, ROW_UNIT_##unit, text, offsetof(struct tenant_row, field)},
#define ROW_TEXT(field, n_bytes, heading, text)
#include "proto/tenants.def"
#undef ROW_U32
#undef ROW_U64
#undef ROW_TEXT
};

static uint64_t value_of(const struct figure *figure, const struct tenant_row *row)
{
        uint64_t value;

        memcpy(&value, (const char *)row + figure->offset, sizeof(value));
        return value;
}

/* A sum that overflows stays at the maximum. */
static void add_row(struct tenant_row *sum, const struct tenant_row *row)
{
        for (unsigned i = 0; i < ARRAY_SIZE(figures_of_tenants); i++) {
                uint64_t a = value_of(&figures_of_tenants[i], sum);
                uint64_t b = value_of(&figures_of_tenants[i], row);
                uint64_t total = a > UINT64_MAX - b ? UINT64_MAX : a + b;

                memcpy((char *)sum + figures_of_tenants[i].offset, &total, sizeof(total));
        }
}

static void make_printable(struct tenant_row *row)
{
        row->container[sizeof(row->container) - 1] = '\0';
        if (row->uid == LISTING_NOBODY)
                row->container[0] = '\0';
        for (char *byte = row->container; *byte; byte++)
                *byte = lines_printable(*byte);
}

static int compare_labels(const void *a, const void *b)
{
        const struct tenant_row *one = a, *other = b;

        if (one->pool != other->pool)
                return one->pool < other->pool ? -1 : 1;
        if (one->uid != other->uid)
                return one->uid < other->uid ? -1 : 1;
        return strcmp(one->container, other->container);
}

/* Sorts by size, the largest first, and the sum of others last. */
static int compare_sizes(const void *a, const void *b)
{
        const struct tenant_row *one = a, *other = b;
        bool one_is_sum = one->uid == LISTING_NOBODY, other_is_sum = other->uid == LISTING_NOBODY;

        if (one_is_sum != other_is_sum)
                return one_is_sum ? 1 : -1;
        if (one->reserved != other->reserved)
                return one->reserved > other->reserved ? -1 : 1;
        return compare_labels(a, b);
}

/* Merges rows with equal labels: Prometheus rejects a whole scrape that has duplicates. Returns the number
 * of rows left. */
static uint32_t merge(struct tenant_row *rows, uint32_t n_rows)
{
        uint32_t n = 0;

        qsort(rows, n_rows, sizeof(*rows), compare_labels);
        for (uint32_t i = 0; i < n_rows; i++) {
                if (n && compare_labels(&rows[n - 1], &rows[i]) == 0)
                        add_row(&rows[n - 1], &rows[i]);
                else
                        rows[n++] = rows[i];
        }
        return n;
}

/* Each pool may have others. */
static uint32_t make_few(struct tenant_row *rows, uint32_t n_rows, uint32_t n_pools)
{
        uint32_t n_kept = n_pools < METRICS_TENANT_ROWS_MAX ? METRICS_TENANT_ROWS_MAX - n_pools : 0;
        uint32_t n;

        for (uint32_t i = 0; i < n_rows; i++)
                make_printable(&rows[i]);
        n = merge(rows, n_rows);
        if (n <= METRICS_TENANT_ROWS_MAX)
                return n;
        qsort(rows, n, sizeof(*rows), compare_sizes);
        for (uint32_t i = n_kept; i < n; i++) {
                rows[i].uid = LISTING_NOBODY;
                rows[i].container[0] = '\0';
                rows[i].reserved_peak = LISTING_UNTOLD;
        }
        return merge(rows, n);
}

static const struct pool_row *find_pool(const struct metrics_figures *figures, uint32_t id)
{
        for (uint32_t i = 0; i < figures->n_pools; i++) {
                if (figures->pools[i].id == id)
                        return &figures->pools[i];
        }
        return NULL;
}

/* Of others gpumemd does not tell the peak: it has no sum. */
static bool is_untold(const struct figure *figure, const struct tenant_row *row)
{
        return row->uid == LISTING_NOBODY && value_of(figure, row) == LISTING_UNTOLD;
}

static void put_row(struct lines *lines, const struct metrics_figures *figures,
                    const struct figure *figure, const struct tenant_row *row)
{
        const struct pool_row *pool = find_pool(figures, row->pool);

        if (!pool || is_untold(figure, row))
                return;
        pool_sample(lines, pool);
        if (row->uid == LISTING_NOBODY)
                lines_label(lines, "uid", OTHERS);
        else
                lines_label_number(lines, "uid", row->uid);
        lines_label(lines, "container", row->container);
        lines_value(lines, value_of(figure, row));
}

int tenants_put(struct lines *lines, const struct metrics_figures *figures)
{
        CLEANUP(freep)
        struct tenant_row *rows = calloc(figures->n_tenants + 1, sizeof(*rows));
        uint32_t n;

        if (!rows)
                return -ENOMEM;
        if (figures->n_tenants)
                memcpy(rows, figures->tenants, figures->n_tenants * sizeof(*rows));
        n = make_few(rows, figures->n_tenants, figures->n_pools);
        for (unsigned i = 0; i < ARRAY_SIZE(figures_of_tenants); i++) {
                const struct figure *figure = &figures_of_tenants[i];
                bool is_bytes = figure->unit == ROW_UNIT_bytes;

                lines_family(lines, METRIC_GAUGE, is_bytes ? "bytes" : "", figure->text,
                             "gpumemd_tenant_%s%s", figure->field, is_bytes ? "_bytes" : "");
                for (uint32_t row = 0; row < n; row++)
                        put_row(lines, figures, figure, &rows[row]);
        }
        return 0;
}
