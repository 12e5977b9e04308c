/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_CACHE_SIZE, how much unused memory a client may keep; GPUMEM_MEMORY_LIMIT, how much of each device it may
 * reserve. */
#pragma once

#include <stdint.h>

/* Bytes of empty blocks in each pool; UINT64_MAX when it is not set. GPUMEM_E_BAD_CACHE_SIZE: it is not a valid
 * size. */
int settings_read_cache_size(uint64_t *ret_n_bytes);

/* UINT64_MAX when it is not set. GPUMEM_E_BAD_LIMIT: it is not a valid size. */
int settings_read_limit(uint64_t *ret_n_bytes);

/* GPUMEM_LOG: what the library writes to stderr, in a program that has not chosen by itself. stderr tells of a level
 * that there is not. */
void settings_read_log(void);
