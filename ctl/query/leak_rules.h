/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that may be leaked, found in the rows of blocks and clients, and what can be done about it. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"

enum leak_kind {
        LEAK_LEFT,       /* of a client whose connection is over, and whose process is not */
        LEAK_ORPHANED,   /* of one whose process is over, and whose connection is not */
        LEAK_STOPPED,    /* held by a process that is stopped */
        LEAK_LINGERING,  /* taken from a client that has not unmapped it */
        LEAK_REGISTERED, /* the same of pinned memory, which a process that works keeps registered */
        LEAK_UNCHARGED,  /* on its way back to the driver, which does not take it */
        LEAK_DECLARED,   /* of an earlier daemon */
        LEAK_IDLE,       /* leased, and not used */
        LEAK_SHARED,     /* held by clients that attached it; the one that shared it has freed it */
        LEAK_N_KINDS,
};

/* One process's, in one pool or in all together. */
struct leak {
        enum leak_kind kind;
        uint32_t uid;
        uint32_t pid;  /* 0: none */
        uint32_t pool; /* LISTING_NOBODY: all */
        uint64_t n_bytes;
        uint64_t n_blocks; /* 0: it is not known */
        uint64_t age_ms;   /* of the oldest */
        char program[32];
        char container[32];
};

struct leaks {
        struct leak *leaks;
        uint32_t n;
        bool is_short_of_memory; /* some are missing */
};

struct leak_rows {
        const struct client_row *clients;
        uint32_t n_clients;
        const struct block_row *blocks;
        uint32_t n_blocks;
};

/* What is as old as that, or older; rows of other tenants are passed over. */
void leaks_find(const struct leak_rows *rows, uint64_t older_ms,
                bool (*is_stopped)(uint32_t pid, uint32_t uid), struct leaks *ret_leaks);

void leaks_deinit(struct leaks *leaks);

/* "lingering" */
const char *leak_name(enum leak_kind kind);

/* What can be done: fits a cell of a table. */
#define LEAK_ADVICE_MAX 72
void leak_advise(const struct leak *leak, char ret_advice[static LEAK_ADVICE_MAX]);
