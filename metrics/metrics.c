/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"
#include "metrics/pool_sample.h"
#include "metrics/tenants.h"

enum scope { SCOPE_POOL, SCOPE_DEVICE, SCOPE_LOOP };

enum unit { UNIT_bytes, UNIT_count, UNIT_ms, UNIT_ns, UNIT_permille, UNIT_mode, UNIT_state };

struct figure {
        const char *field;
        enum unit unit;
        enum scope scope;
        enum metric_form form;
        const char *text;
        size_t offset;
};

enum {
#define FORM(field, scope, form) SCOPE_OF_##field = SCOPE_##scope, FORM_OF_##field = METRIC_##form,
#include "metrics/forms.def"
#undef FORM
};

static const struct figure pool_figures[] = {
#define STAT(field, unit, text)             \
        {#field,                            \
         UNIT_##unit,                       \
         (enum scope)SCOPE_OF_##field,      \
         (enum metric_form)FORM_OF_##field, \
         text,                              \
         offsetof(struct stats_row, field)},
#include "proto/stats.def"
#undef STAT
};

static const struct figure loop_figures[] = {
#define LOOP(field, unit, text)             \
        {#field,                            \
         UNIT_##unit,                       \
         (enum scope)SCOPE_OF_##field,      \
         (enum metric_form)FORM_OF_##field, \
         text,                              \
         offsetof(struct message_loop_is, field)},
#include "proto/loop.def"
#undef LOOP
};

enum own {
#define OWN(name, form, unit, text) OWN_##name,
#include "metrics/own.def"
#undef OWN
};

static const struct {
        const char *name;
        enum metric_form form;
        const char *unit;
        const char *text;
} owns[] = {
#define OWN(name, form, unit, text) {#name, METRIC_##form, unit, text},
#include "metrics/own.def"
#undef OWN
};

static const char *const device_states[] = {
        [PROTO_DEVICE_UNKNOWN] = "unknown",
        [PROTO_DEVICE_WELL] = "well",
        [PROTO_DEVICE_WORN] = "worn",
        [PROTO_DEVICE_NEEDS_RESET] = "needs_reset",
        [PROTO_DEVICE_NEEDS_REBOOT] = "needs_reboot",
        [PROTO_DEVICE_LOST] = "lost",
};

static const char *const driver_states[] = {
        [PROTO_DRIVER_ANSWERS] = "answers",
        [PROTO_DRIVER_STALLED] = "stalled",
        [PROTO_DRIVER_LOST] = "lost",
};

/* The text in the list describes the numbers of the states; a sample has 0 or 1 for each state instead. */
static const char text_of_states[] = "1: it is in this state; 0: it is not";

void metrics_deinit(struct metrics_figures *figures)
{
        free(figures->pools);
        free(figures->stats);
        free(figures->clients);
        free(figures->tenants);
        *figures = METRICS_FIGURES_NULL;
}

static void begin_own(struct lines *lines, enum own own)
{
        lines_family(lines, owns[own].form, owns[own].unit, owns[own].text, "gpumemd_%s",
                     owns[own].name);
}

static void put_own(struct lines *lines, enum own own, uint64_t value)
{
        begin_own(lines, own);
        lines_sample(lines);
        lines_value(lines, value);
}

static void put_pool_info(struct lines *lines, const struct metrics_figures *figures)
{
        begin_own(lines, OWN_pool_info);
        for (uint32_t i = 0; i < figures->n_pools; i++) {
                pool_sample(lines, &figures->pools[i]);
                if (figures->pools[i].kind == GPUMEM_DEVICE)
                        lines_label_number(lines, "gpu", figures->pools[i].place);
                lines_label(lines, "name", figures->pools[i].name);
                lines_value(lines, 1);
        }
        begin_own(lines, OWN_pool_capacity_bytes);
        for (uint32_t i = 0; i < figures->n_pools; i++) {
                pool_sample(lines, &figures->pools[i]);
                lines_value(lines, figures->pools[i].n_capacity_bytes);
        }
}

static uint64_t value_of(const struct figure *figure, const void *row)
{
        uint64_t value;

        memcpy(&value, (const char *)row + figure->offset, sizeof(value));
        return value;
}

static void put_value(struct lines *lines, const struct figure *figure, uint64_t value)
{
        if (figure->unit == UNIT_ms || figure->unit == UNIT_permille)
                lines_value_seconds(lines, value, 3);
        else if (figure->unit == UNIT_ns)
                lines_value_seconds(lines, value, 9);
        else
                lines_value(lines, value);
}

static void put_states(struct lines *lines, const struct figure *figure,
                       const struct pool_row *pool, uint64_t value)
{
        bool is_driver = figure->offset == offsetof(struct stats_row, driver);
        const char *const *names = is_driver ? driver_states : device_states;
        size_t n = is_driver ? ARRAY_SIZE(driver_states) : ARRAY_SIZE(device_states);

        for (size_t i = 0; i < n; i++) {
                pool_sample(lines, pool);
                lines_label(lines, "state", names[i]);
                lines_value(lines, i == value);
        }
}

static void put_figure(struct lines *lines, const struct figure *figure,
                       const struct pool_row *pool, const struct stats_row *row)
{
        uint64_t value = value_of(figure, row);

        if ((figure->scope == SCOPE_DEVICE && pool->kind != GPUMEM_DEVICE) ||
            value == PROTO_FIGURE_UNKNOWN)
                return;
        if (figure->form == METRIC_STATES) {
                put_states(lines, figure, pool, value);
                return;
        }
        pool_sample(lines, pool);
        put_value(lines, figure, value);
}

static const char *suffix_of(enum unit unit)
{
        static const char *const suffixes[] = {
                [UNIT_bytes] = "_bytes", [UNIT_count] = "",       [UNIT_ms] = "_seconds",
                [UNIT_mode] = "",        [UNIT_state] = "_state", [UNIT_permille] = "_ratio",
                [UNIT_ns] = "_seconds",
        };

        return suffixes[unit];
}

static const char *unit_of(enum unit unit)
{
        static const char *const units[] = {
                [UNIT_bytes] = "bytes",    [UNIT_count] = "", [UNIT_ms] = "seconds",
                [UNIT_permille] = "ratio", [UNIT_mode] = "",  [UNIT_state] = "",
                [UNIT_ns] = "seconds",
        };

        return units[unit];
}

static void begin_figure(struct lines *lines, const struct figure *figure)
{
        static const char *const scopes[] = {
                [SCOPE_POOL] = "pool_",
                [SCOPE_DEVICE] = "",
                [SCOPE_LOOP] = "loop_",
        };

        lines_family(lines, figure->form, unit_of(figure->unit),
                     figure->form == METRIC_STATES ? text_of_states : figure->text,
                     "gpumemd_%s%s%s", scopes[figure->scope], figure->field,
                     suffix_of(figure->unit));
}

static void put_loop(struct lines *lines, const struct message_loop_is *loop)
{
        for (unsigned n = 0; n < ARRAY_SIZE(loop_figures); n++) {
                begin_figure(lines, &loop_figures[n]);
                lines_sample(lines);
                put_value(lines, &loop_figures[n], value_of(&loop_figures[n], loop));
        }
}

static void put_figures(struct lines *lines, const struct metrics_figures *figures)
{
        for (unsigned n = 0; n < ARRAY_SIZE(pool_figures); n++) {
                const struct figure *figure = &pool_figures[n];

                begin_figure(lines, figure);
                for (uint32_t i = 0; i < figures->n_pools; i++)
                        put_figure(lines, figure, &figures->pools[i], &figures->stats[i]);
        }
}

/* Writes all states, also those with 0 clients, so that no old value stays visible. */
static void put_clients(struct lines *lines, const struct metrics_figures *figures)
{
        uint64_t n_in[LISTED_OTHERS + 1] = {0};

        for (uint32_t i = 0; i < figures->n_clients; i++) {
                if (figures->clients[i].state <= LISTED_OTHERS)
                        n_in[figures->clients[i].state] += figures->clients[i].clients;
        }
        begin_own(lines, OWN_clients);
        for (unsigned state = LISTED_READY; state <= LISTED_OTHERS; state++) {
                lines_sample(lines);
                lines_label(lines, "state", listed_client_name(state));
                lines_value(lines, n_in[state]);
        }
}

static void put_exporter(struct lines *lines, const struct metrics_exporter *exporter)
{
        begin_own(lines, OWN_exporter_build_info);
        lines_sample(lines);
        lines_label(lines, "version", exporter->version);
        lines_value(lines, 1);
        put_own(lines, OWN_exporter_scrapes, exporter->n_scrapes);
        put_own(lines, OWN_exporter_asks, exporter->n_asks);
        put_own(lines, OWN_exporter_failures, exporter->n_failures);
        put_own(lines, OWN_exporter_restarts, exporter->n_restarts);
}

static int put_daemon(struct lines *lines, const struct metrics_figures *figures)
{
        begin_own(lines, OWN_answer_seconds);
        lines_sample(lines);
        lines_value_seconds(lines, figures->answer_ns, 9);
        if (figures->has_loop)
                put_loop(lines, &figures->loop);
        put_clients(lines, figures);
        put_pool_info(lines, figures);
        put_figures(lines, figures);
        return figures->with_tenants ? tenants_put(lines, figures) : 0;
}

static int put_all(struct lines *lines, const struct metrics_figures *figures)
{
        int r = 0;

        put_own(lines, OWN_up, figures->is_up);
        if (figures->exporter)
                put_exporter(lines, figures->exporter);
        if (figures->is_up)
                r = put_daemon(lines, figures);
        lines_end(lines);
        return r;
}

int metrics_render(const struct metrics_figures *figures, enum metrics_format format,
                   char **ret_text, size_t *ret_n_bytes)
{
        struct lines lines = {.format = format};
        char *text = NULL;
        size_t n_bytes;
        int r;

        lines.file = open_memstream(&text, &n_bytes);
        if (!lines.file)
                return -ENOMEM;
        r = put_all(&lines, figures);
        if (fclose(lines.file))
                r = -ENOMEM;
        if (r) {
                free(text);
                return r;
        }
        *ret_text = text;
        *ret_n_bytes = n_bytes;
        return 0;
}
