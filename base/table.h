/* SPDX-License-Identifier: Apache-2.0 */
/* uthash, told to report when memory is out instead of ending the process: after HASH_ADD an
 * element whose hh.tbl is NULL was not added. Everything else that it does cannot fail. */
#pragma once

#define HASH_NONFATAL_OOM 1
/* Its default is a switch that falls through without saying so to clang. */
#define HASH_FUNCTION(key, n_bytes, hash) HASH_FNV(key, n_bytes, hash)
#include <uthash.h>
