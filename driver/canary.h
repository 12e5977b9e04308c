/* SPDX-License-Identifier: Apache-2.0 */
/* Does memory that one owner gave back come to the next one without its bytes? The driver is to see to
 * that, and everything between tenants rests on it: so it is tried.
 *
 * A context of the device is made for it, and ended: for processes that live for this only. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

enum canary_bytes { CANARY_ZERO, CANARY_OTHERS };

/* How much is a fair try: a part of the device, and never less than one granule. */
int canary_size(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes);

/* Makes a block, fills it with bytes that are not 0, finds them there, and lets go of it. */
int canary_fill(const struct cuda *cuda, int ordinal, uint64_t n_bytes);

/* Makes a block and says what is in it. */
int canary_look(const struct cuda *cuda, int ordinal, uint64_t n_bytes,
                enum canary_bytes *ret_found);
