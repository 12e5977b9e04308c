/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ratelimit/token_bucket.h"

#define NS_PER_S      UINT64_C(1000000000)
#define BURST_SECONDS 2

struct token_bucket_rule token_bucket_rule_of(uint64_t n_a_second)
{
        return (struct token_bucket_rule){.step_ns = NS_PER_S / n_a_second,
                                          .burst_ns = BURST_SECONDS * NS_PER_S};
}

uint64_t token_bucket_ready_ns(const struct token_bucket *bucket,
                               const struct token_bucket_rule *rule, uint64_t now_ns)
{
        uint64_t spent_ns = now_ns + rule->burst_ns - rule->step_ns;

        return bucket->full_ns <= spent_ns ? now_ns : now_ns + (bucket->full_ns - spent_ns);
}

bool token_bucket_has_one(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ns)
{
        return token_bucket_ready_ns(bucket, rule, now_ns) == now_ns;
}

void token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                       uint64_t now_ns)
{
        if (bucket->full_ns < now_ns)
                bucket->full_ns = now_ns;
        bucket->full_ns += rule->step_ns;
}
