/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: how fast a user may ask. Each request takes a token, and a number of tokens comes back
 * each second.
 *
 * The bucket stores the time at which it would be full, so that it needs no timer. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct token_bucket_rule {
        uint64_t step_ns;  /* between tokens */
        uint64_t burst_ns; /* time to fill an empty bucket */
};

#define TOKEN_BUCKET_MAX_A_SECOND UINT64_C(1000000)

/* That many requests a second, at least 1, and twice as many at once. */
struct token_bucket_rule token_bucket_rule_of(uint64_t n_a_second);

struct token_bucket {
        uint64_t full_ns; /* when the bucket is full */
};

/* Whether there is a token. */
bool token_bucket_has_one(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ns);

/* Takes a token, also from an empty bucket, which then owes it. */
void token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                       uint64_t now_ns);

/* When there is a token; not before now_ns. */
uint64_t token_bucket_ready_ns(const struct token_bucket *bucket,
                               const struct token_bucket_rule *rule, uint64_t now_ns);
