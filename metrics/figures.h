/* SPDX-License-Identifier: Apache-2.0 */
/* The input of the metrics of a node: the daemon's replies, and the exporter's own counters. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"
#include "proto/messages.h"

/* Rows of tenants that get samples, over all pools, with those of the others, which the rest adds up to. */
#define METRICS_TENANT_ROWS_MAX 1000

/* The exporter's counters of itself. */
struct metrics_exporter {
        const char *version;
        uint64_t n_scrapes;
        uint64_t n_asks;
        uint64_t n_failures;
        uint64_t n_restarts;
};

struct metrics_figures {
        bool is_up;         /* false: all fields but `exporter` are unset */
        uint64_t answer_ns; /* from the first question to the last reply */
        uint32_t n_pools;
        struct pool_row *pools; /* ids ascend; names end with a NUL */
        struct stats_row *stats;
        bool has_loop; /* an older daemon does not tell them */
        struct message_loop_is loop;
        uint32_t n_clients;
        struct client_row *clients;
        bool with_tenants;
        uint32_t n_tenants;
        struct tenant_row *tenants;
        const struct metrics_exporter *exporter; /* NULL: none */
};

#define METRICS_FIGURES_NULL ((struct metrics_figures){.is_up = false})
