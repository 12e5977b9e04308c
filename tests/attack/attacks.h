/* SPDX-License-Identifier: Apache-2.0 */
/* The table of attacks. */
#pragma once

#include "tests/attack/gang.h"

#define ATTACK_GANGS_MAX 3

/* What is measured, and wanted. */
enum attack_figure {
        ATTACK_LATENCY, /* the loop's time of each question: p99 at most 0.5 ms, all at most 2 ms */
        ATTACK_NEAR,    /* of a lease: p99 at most twice what it is without an attack, and 0.3 ms */
        ATTACK_SHARE, /* the first gang's part of all requests that are served: at least `percent` */
        ATTACK_RATES, /* leases a second beside an echo's; no gang */
};

/* What the last gang is answered, as far as that can be said. */
enum attack_answers {
        ATTACKERS_ARE_SERVED,  /* each request */
        ATTACKERS_ARE_REFUSED, /* each, from when the attack begins, and first with `refused_with` */
        ATTACKERS_ARE_EITHER,
};

struct attack {
        const char *name;
        enum attack_figure figure;
        enum attack_answers answers;
        int refused_with;
        unsigned seconds; /* 0: ATTACK_SECONDS */
        unsigned percent;
        bool kills;   /* the attack is that the last gang is killed */
        bool returns; /* the last gang is paused now and then; shares count only while it is not */
        unsigned n_gangs;
        struct gang_rule gangs[ATTACK_GANGS_MAX];
};

#define ATTACK_SECONDS 4

extern const struct attack attacks[];
extern const unsigned n_attacks;

/* NULL: there is none of that name. */
const struct attack *attack_of(const char *name);

/* Fewer and shorter, for a test that counts and measures no time. */
struct attack attack_shortened(const struct attack *attack);
