/* SPDX-License-Identifier: Apache-2.0 */
/* How fast somebody may ask, how long nobody may read, and how often that is looked at.
 *
 * A pace is a bucket of tokens, of which so many come back each second. It is kept as the moment at which
 * the bucket would be full again, so that time needs no ticks. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pace_rule {
        uint64_t step_ns;  /* between tokens */
        uint64_t burst_ns; /* in which an empty bucket is full */
};

#define PACE_MAX UINT64_C(1000000)

/* So many a second, 1 at least, and at once as many as in two seconds. */
struct pace_rule pace_rule_of(uint64_t n_a_second);

struct pace {
        uint64_t full_ns; /* when the bucket is full */
};

/* There is a token. */
bool pace_may(const struct pace *pace, const struct pace_rule *rule, uint64_t now_ns);

/* Takes one, also of an empty bucket: then it is owed. */
void pace_take(struct pace *pace, const struct pace_rule *rule, uint64_t now_ns);

/* When there is one; not before now. */
uint64_t pace_ready_ns(const struct pace *pace, const struct pace_rule *rule, uint64_t now_ns);

/* Somebody for whom something is left to read, and since when he has read nothing of it. */
struct stall {
        uint64_t since_ns;
        uint64_t n_unread;
};

void stall_begin(struct stall *stall, uint64_t n_unread, uint64_t now_ns);

/* He is left so much now; whether that was so, or less, for patience_ns. */
bool stall_is_over(struct stall *stall, uint64_t n_unread, uint64_t patience_ns, uint64_t now_ns);

/* Looks at a number of which nobody tells when it changes: the rarer, the longer it has not. */
struct backoff {
        uint64_t next_ns;
        uint64_t wait_ns;
        uint64_t n_seen;
};

#define BACKOFF_MIN_NS UINT64_C(5000000)
#define BACKOFF_MAX_NS (16 * BACKOFF_MIN_NS)

void backoff_begin(struct backoff *backoff, uint64_t n, uint64_t now_ns);

/* It is to be looked at again. */
bool backoff_is_over(const struct backoff *backoff, uint64_t now_ns);

/* It was, and is so much. */
void backoff_go_on(struct backoff *backoff, uint64_t n, uint64_t now_ns);
