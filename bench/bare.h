/* SPDX-License-Identifier: Apache-2.0 */
/* A client of gpumemd without the library's memory: its link and its board, and leases of device memory
 * as they come. One thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "client/connection/link.h"

struct options;

struct bare {
        struct link *link;
        uint32_t pool; /* the first of device memory */
        pid_t daemon;  /* 0: not known */
        void *board;   /* mapped */
        uint64_t n_board_bytes;
        _Atomic uint64_t *words; /* by slot */
        uint32_t n_slots;
};

#define BARE_NULL ((struct bare){.link = NULL})

int bare_init(const struct options *options, struct bare *ret_bare);
void bare_deinit(struct bare *bare);

/* A block of exactly that size, from the daemon. */
int bare_lease(struct bare *bare, uint64_t n_bytes, struct message_leased *ret_lease, int *ret_fd);

/* It is not mapped any more. */
int bare_return(struct bare *bare, uint64_t lease);

/* The same of one that the daemon has revoked. */
int bare_unmapped(struct bare *bare, uint64_t lease);

/* What was sent before has been seen to. */
int bare_settle(struct bare *bare);

/* The daemon keeps nothing cached for this tenant. */
int bare_clear(struct bare *bare);
