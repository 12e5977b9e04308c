/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that freed device memory is cleared before its next owner gets it. The driver must do that, and the
 * separation of tenants depends on it.
 *
 * The check makes a context of the device, and ends it: it is for processes that live for this only. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

enum canary_bytes { CANARY_ZERO, CANARY_OTHERS };

/* How much memory a check should use: a part of the device, at least one granule. */
int canary_size(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes);

/* Makes a block, fills it with bytes that are not 0, reads them back, and releases it. */
int canary_fill(const struct cuda *cuda, int ordinal, uint64_t n_bytes);

/* Makes a block and tells what is in it. */
int canary_look(const struct cuda *cuda, int ordinal, uint64_t n_bytes,
                enum canary_bytes *ret_found);
