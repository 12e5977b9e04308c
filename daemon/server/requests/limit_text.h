/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as text: as on the command line, and as changes in the log. On the loop. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/policy/policy.h"
#include "daemon/server/session/session.h"

/* Names a limit by the numbers of SET_LIMITS. */
struct limit_name {
        uint32_t scope;
        uint32_t holder;
        uint32_t kind;
};

/* "tenant/1000:device_bytes=4.00 GiB"; for PROTO_LIMIT_NONE "none", for _INHERIT "default". */
#define LIMIT_TEXT_MAX 96
const char *limit_text(const struct limit_name *name, uint64_t max,
                       char text[static LIMIT_TEXT_MAX]);

/* Logs a line for each limit of clients and tenants that differs. NULL: a table without limits. */
void limit_text_log_changes(const struct limits *before, const struct limits *now);
