/* SPDX-License-Identifier: Apache-2.0 */
/* What the metrics of a node are made of: what its daemon says, and what the exporter counts of itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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

#define METRICS_FIGURES_NULL ((struct metrics_figures){.is_up = false})
