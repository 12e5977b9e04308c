/* A daemon's figures as metrics for Prometheus, after proto/stats.def, proto/tenants.def and
 * metrics/own.def. Pure.
 *
 * Labels are bounded: a pool's id, its kind, its GPU's UUID or its NUMA node, a state. No pid, no
 * pointer, no block. Tenants, by uid and container, only where the figures hold their rows, and so
 * many of them: the others are one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metrics/lines.h"
#include "proto/listing.h"
#include "proto/proto.h"

/* Rows of tenants, in all pools together, that have samples of their own. */
#define METRICS_TENANT_ROWS_MAX 1000

/* What the exporter counts of itself. */
struct metrics_exporter {
        const char *version;
        uint64_t n_scrapes;
        uint64_t n_asks;
        uint64_t n_failures;
        uint64_t n_restarts;
};

struct metrics_figures {
        bool is_up;         /* without it there is nothing else, but of the exporter */
        uint64_t answer_ns; /* from the first question to the last answer */
        uint32_t n_pools;
        struct pool_row *pools; /* their ids ascend; names end with a NUL */
        struct stats_row *stats;
        uint32_t n_clients;
        struct client_row *clients;
        bool with_tenants;
        uint32_t n_tenants;
        struct tenant_row *tenants;
        const struct metrics_exporter *exporter; /* NULL: none */
};

#define METRICS_FIGURES_NULL   \
        {                      \
                .is_up = false \
        }

void metrics_deinit(struct metrics_figures *figures);

/* The whole text, the caller's to free. -ENOMEM. */
int metrics_render(const struct metrics_figures *figures, enum metrics_format format,
                   char **ret_text, size_t *ret_n_bytes);
