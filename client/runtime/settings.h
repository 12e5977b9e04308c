/* SPDX-License-Identifier: Apache-2.0 */
/* How much a client may keep of what it does not use: GPUMEM_CACHE_SIZE. */
#pragma once

#include <stdint.h>

/* Bytes of empty blocks in each pool; UINT64_MAX when it is not set. GPUMEM_E_BAD_REQUEST: it is no size. */
int settings_read_cache_size(uint64_t *ret_n_bytes);
