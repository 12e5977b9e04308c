/* SPDX-License-Identifier: Apache-2.0 */
/* A change of a limit, as a person writes it: WHO:WHAT=N. One thread. */
#pragma once

#include <stdint.h>

#include "proto/messages.h"

/* One change, as SET_LIMITS has it. */
struct limit_change {
        uint32_t scope;
        uint32_t holder;
        uint32_t kind;
        uint64_t max;
};

#define LIMIT_CHANGES_MAX PROTO_LIMIT_CHANGES_MAX

/* Reads WHO:WHAT=N. -EINVAL: it is not valid, and stderr says what is expected. */
int limit_change_parse(const char *text, struct limit_change *ret_change);
