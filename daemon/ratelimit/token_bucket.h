/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: how fast a user may ask. Each request takes a token, and so many come back each second.
 *
 * A bucket is kept as the moment at which it would be full again, so that time needs no ticks. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct token_bucket_rule {
        uint64_t step_ns;  /* between tokens */
        uint64_t burst_ns; /* in which an empty bucket is full */
};

#define TOKEN_BUCKET_MAX_A_SECOND UINT64_C(1000000)

/* So many a second, 1 at least, and at once as many as in two seconds. */
struct token_bucket_rule token_bucket_rule_of(uint64_t n_a_second);

struct token_bucket {
        uint64_t full_ns; /* when the bucket is full */
};

/* There is a token. */
bool token_bucket_has_one(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ns);

/* Takes one, also of an empty bucket: then it is owed. */
void token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                       uint64_t now_ns);

/* When there is one; not before now. */
uint64_t token_bucket_ready_ns(const struct token_bucket *bucket,
                               const struct token_bucket_rule *rule, uint64_t now_ns);
