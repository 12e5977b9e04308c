/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_CACHE_SIZE: how much unused memory a client may keep. */
#pragma once

#include <stdint.h>

/* Bytes of empty blocks in each pool; UINT64_MAX when it is not set. GPUMEM_E_BAD_CACHE_SIZE: it is not a valid size. */
int settings_read_cache_size(uint64_t *ret_n_bytes);
