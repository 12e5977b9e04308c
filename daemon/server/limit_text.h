/* Limits as the command line writes them, and what of them has changed. On the loop. */
#pragma once

#include <stdint.h>

#include "daemon/policy/policy.h"

/* As in SET_LIMITS. */
struct limit_name {
        uint32_t scope;
        uint32_t holder;
        uint32_t kind;
};

/* "tenant/1000:device_bytes=4.00 GiB"; for PROTO_LIMIT_NONE "none", for _INHERIT "default". */
#define LIMIT_TEXT_MAX 96
const char *limit_text(const struct limit_name *name, uint64_t max,
                       char text[static LIMIT_TEXT_MAX]);

/* A line in the log for each limit of clients and tenants that differs. NULL: a table of none. */
void limits_say_changes(const struct limit_table *before, const struct limit_table *now);
