/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's lists, read over a connection; failures end the test. */
#pragma once

#include <stdint.h>

#include "client/connection/link.h"
#include "proto/listing.h"

/* Rows, and the statistics of every pool at the same moment. */
struct listed {
        uint32_t n_rows;
        union {
                void *rows;
                struct client_row *clients;
                struct block_row *blocks;
                struct tenant_row *tenants;
        };
        uint32_t n_pools;
        struct stats_row *pools;
};

/* MESSAGE_CLIENTS, MESSAGE_BLOCKS (of all pools) or MESSAGE_TENANTS. */
struct listed listed_fetch(struct link *link, enum message_kind kind);

/* The same over a connection of its own. */
struct listed listed_now(enum message_kind kind);

void listed_free(struct listed *listed);

/* What that client sees of a client of another tenant, which leases so many blocks of a device and nothing
 * else: only the sum, without pid, name, uid, age or single blocks. */
void listed_expect_sums(struct link *link, uint64_t n_bytes, unsigned n_blocks);
