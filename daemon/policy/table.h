/* uthash, told to report when memory is out instead of ending the process: after HASH_ADD an
 * element whose hh.tbl is NULL was not added. Everything else that it does cannot fail. */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
