/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with limits from its configuration, for tests of them. After each test nothing is charged,
 * everything goes back to the driver, and both sides have as many fds open as before. */
#pragma once

#include <stdint.h>

#include "tests/live/daemon.h"
#include "tests/live/links.h"

#define NOBODY UINT32_MAX

extern struct daemon gpumemd;
extern unsigned n_daemon_fds, n_own_fds;

/* Fixtures. A device of 64 MiB, with 16 for each client, and 24 and 6 leases for each tenant. */
void limits_start(void);
void limits_stop(void);

void write_config(const char *text);

/* Of the first pool. */
int lease(struct link *link, uint64_t n_bytes, uint32_t wait_ms, uint64_t *ret_lease);
uint64_t must_lease(struct link *link, uint64_t n_bytes);
void give_back(struct link *link, uint64_t id);

int set_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind, uint64_t max);

/* The row of LIMITS for this holder; max is 0 when there is none. */
struct limit_row limit_of(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind);

/* The part of a device's memory that amounts to these whole blocks and a little, whatever its size. */
double fraction_of(uint64_t n_bytes);
