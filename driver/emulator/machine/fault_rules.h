/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that a test requests, as text and as rules. Pure.
 *
 *  "fail=CALL:N:RESULT"  the Nth call gives that CUresult and does nothing
 *  "fail=CALL:P%:RESULT" the same for P calls of a hundred, by chance
 *  "seed=N"              determines which these are; without one, as with 0
 *  "delay=CALL:US"       every call takes so many microseconds longer
 *  "hang=CALL:N"         the Nth call does not return before other rules are in force
 *  "lost=CALL:N:RESULT"  from the Nth call on, every call of any name gives that CUresult; without
 *                        one, CUDA_ERROR_DEVICE_UNAVAILABLE
 *  "count=CALL"          the file calls.PID tells how many calls this process has made
 *
 * CALL is a call's name, without the number of its version, or * for any. N counts this process's calls from when the
 * rule came into force; * is each. If call N is past already, nothing happens. Chance depends on seed, rule and the
 * call's number: the same calls fail again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FAULT_RULES_MAX 32
#define FAULT_CALL_MAX  64

#define FAULT_FAIL_ALLOWED \
        "CALL:N:RESULT such as cuMemCreate:3:2, N or CALL may be *, N a rate as 1%"
#define FAULT_SEED_ALLOWED  "a number up to 10000000"
#define FAULT_DELAY_ALLOWED "CALL:MICROSECONDS such as cuMemMap:500, up to 10000000"
#define FAULT_HANG_ALLOWED  "CALL:N such as cuMemMap:1, N or CALL may be *"
#define FAULT_LOST_ALLOWED  "CALL:N or CALL:N:RESULT such as cuMemMap:5:46, N or CALL may be *"

enum fault_kind { FAULT_FAIL, FAULT_DELAY, FAULT_HANG, FAULT_LOST, FAULT_COUNT, FAULT_SEED };

struct fault_rule {
        enum fault_kind kind;
        char call[FAULT_CALL_MAX]; /* "" for any */
        uint64_t nth;              /* 0 for each */
        uint64_t percent;          /* of these; 0 for all */
        uint64_t value;            /* a result, or microseconds */
};

struct fault_rules {
        struct fault_rule items[FAULT_RULES_MAX];
        unsigned n;
        uint64_t seed;
};

/* `kind` is the word before the =, and `text` what follows it. -EINVAL: not a valid rule; -E2BIG: too many. */
int fault_rules_add(struct fault_rules *rules, const char *kind, const char *text);

/* The same from lines of "kind=text". A line "pid=N" limits the lines after it to the process N, and "pid=*" ends
 * that. Empty lines and lines that begin with # are ignored. `text` is modified. `ret_line` is the line in error,
 * from 1. */
int fault_rules_read(struct fault_rules *rules, char *text, uint64_t pid, unsigned *ret_line);

/* Does the rule name the function, whose name may end in a version? */
bool fault_rule_names(const struct fault_rule *rule, const char *function);

/* Does that rule apply to the call with this number among such calls, from 1? */
bool fault_rule_strikes(const struct fault_rules *rules, unsigned rule, uint64_t number);
