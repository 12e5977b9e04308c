/* SPDX-License-Identifier: Apache-2.0 */
/* A client of gpumemd without the library's memory management: a link, a board, and leases of device
 * memory. One thread. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "client/connection/link.h"

struct options;

struct bare {
        struct link *link;
        uint32_t pool; /* the first pool of device memory */
        pid_t daemon;  /* 0: unknown */
        void *board;   /* mapped */
        uint64_t n_board_bytes;
        _Atomic uint64_t *words; /* by slot */
        uint32_t n_slots;
};

#define BARE_NULL ((struct bare){.link = NULL})

int bare_init(const struct options *options, struct bare *ret_bare);
void bare_deinit(struct bare *bare);

/* Leases a block of exactly that size. */
int bare_lease(struct bare *bare, uint64_t n_bytes, struct message_leased *ret_lease, int *ret_fd);

/* Returns a lease; its block is not mapped any more. */
int bare_return(struct bare *bare, uint64_t lease);

/* The same for a lease that the daemon has revoked. */
int bare_unmapped(struct bare *bare, uint64_t lease);

/* Waits until the daemon has handled all earlier messages. */
int bare_settle(struct bare *bare);

/* Frees what the daemon has cached for this tenant. */
int bare_clear(struct bare *bare);
