/* SPDX-License-Identifier: Apache-2.0 */
/* Limits in words: as the command line writes them, as refusals explain them, and what of them has changed.
 * On the loop. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/policy/policy.h"
#include "daemon/server/session/session.h"

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

/* Which limit the refusal is about: whose, how much of it is charged, how much was asked for. */
void limit_explain(const struct session *session, const struct action *action, char *text,
                   size_t n_text);

/* Of what the limit counts that which is in the cache, but kept mapped: only its keeper can change that. */
uint64_t limit_kept(const struct session *session, const struct limit_hit *hit);

/* A line in the log for each limit of clients and tenants that differs. NULL: a table of none. */
void limit_text_log_changes(const struct limits *before, const struct limits *now);
