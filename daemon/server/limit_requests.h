/* Limits as clients ask for them, change them and are told of them. */
#pragma once

#include <stddef.h>

#include "daemon/policy/policy.h"
#include "daemon/server/session.h"

/* Which limit the refusal is about: whose, how much of it is charged, how much was asked for. */
void limit_explain(const struct session *session, const struct order *order, char *text,
                   size_t n_text);

/* Of what the limit counts that which is in the cache, but kept mapped: only its keeper can change that. */
uint64_t limit_kept(const struct session *session, const struct limit_hit *hit);

/* Requests LIMITS and SET_LIMITS. */
void limits_take_list(struct session *session, const struct frame *frame);
void limits_take_set(struct session *session, const struct frame *frame);
