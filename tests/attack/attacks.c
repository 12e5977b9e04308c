/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/attacks.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/attack/works.h"

#define ATTACKER  65010
#define ATTACKERS 65100 /* and those that follow */
#define NEIGHBOUR 65002
#define HOLDER    65003

/* The emulated device of attack.sh has 64 GiB. */
#define TOO_LARGE     (80 * GIB)
#define NOT_FREE      (40 * GIB)
#define PART_NOT_FREE (NOT_FREE / 64)
#define HELD_BYTES    (1 * GIB)
#define N_HELD        32

/* 960 connections of one user, of which a process has 256 at most. */
#define CROWD .n = 4, .uid = ATTACKER, .amount = 240
#define PRESS .n = 8, .uid = ATTACKER

/* Takes half of the device. */
#define HELD_BY_ANOTHER                                                                           \
        {                                                                                         \
                .n = 1, .uid = HOLDER, .work = work_hold, .amount = N_HELD, .n_bytes = HELD_BYTES \
        }

#define ARE_REFUSED(error) .answers = ATTACKERS_ARE_REFUSED, .refused_with = (error)
#define ARE_EITHER         .answers = ATTACKERS_ARE_EITHER

#define ATTACK(...)               .n_gangs = 1, .gangs = {{__VA_ARGS__}}
#define ATTACK_BESIDE(first, ...) .n_gangs = 2, .gangs = {first, {__VA_ARGS__}}

/* One that asks as much as it can. */
#define NEIGHBOUR_ASKS(uid_)                                                         \
        {                                                                            \
                .n = 2, .uid = (uid_), .work = work_lease, .amount = 2, .window = 8, \
                .n_bytes = 2 * MIB, .comes_first = true                              \
        }

const struct attack attacks[] = {
        {"none", ATTACK_LATENCY, .n_gangs = 0},

        /* The findings. */
        {"refused", ATTACK_LATENCY, ARE_REFUSED(GPUMEM_E_REFUSED), .seconds = 8,
         ATTACK_BESIDE(HELD_BY_ANOTHER, CROWD, .work = work_lease, .window = 60, .held = 2,
                       .n_bytes = NOT_FREE)},
        {"refused-users", ATTACK_LATENCY, ARE_REFUSED(GPUMEM_E_REFUSED), .seconds = 8,
         ATTACK_BESIDE(HELD_BY_ANOTHER, .n = 8, .uid = ATTACKERS, .each_a_user = true,
                       .work = work_lease, .amount = 240, .window = 60, .held = 2,
                       .n_bytes = NOT_FREE)},
        {"too-large", ATTACK_LATENCY, ARE_REFUSED(GPUMEM_E_TOO_LARGE), .seconds = 8,
         ATTACK(CROWD, .work = work_lease, .window = 60, .held = 2, .n_bytes = TOO_LARGE)},
        {"never-read", ATTACK_LATENCY, .seconds = 8, ATTACK(CROWD, .work = work_never_read)},
        {"nagging", ATTACK_LATENCY, ATTACK(CROWD, .work = work_nag)},
        {"full", ATTACK_LATENCY, ATTACK(CROWD, .work = work_fill)},
        {"deaf", ATTACK_LATENCY, ATTACK(CROWD, .work = work_deaf)},
        {"attach", ATTACK_LATENCY, ATTACK(CROWD, .work = work_attach, .window = 4)},
        {"malformed", ATTACK_LATENCY, ATTACK(PRESS, .work = work_malformed)},
        {"statistics", ATTACK_LATENCY,
         ATTACK(CROWD, .work = work_statistics, .window = 4, .held = 4)},
        {"connecting", ATTACK_LATENCY, ATTACK(PRESS, .work = work_connect)},
        {"dying", ATTACK_LATENCY, ATTACK(PRESS, .work = work_die, .amount = 8)},

        /* The figures. */
        {"killed", ATTACK_NEAR, .kills = true, .seconds = 2,
         ATTACK(.n = 64, .uid = ATTACKER, .work = work_await_death, .amount = 4096)},
        {"deadlines", ATTACK_NEAR, ARE_EITHER, .seconds = 2,
         ATTACK_BESIDE(HELD_BY_ANOTHER, .n = 60, .uid = ATTACKERS, .each_a_user = true,
                       .work = work_deadlines, .amount = 16, .n_bytes = NOT_FREE)},
        {"connect-20000", ATTACK_NEAR, ATTACK(PRESS, .work = work_connect, .amount = 2500)},
        {"containers", ATTACK_SHARE, .percent = 45,
         ATTACK_BESIDE(NEIGHBOUR_ASKS(NEIGHBOUR), .n = 256, .uid = ATTACKER,
                       .place = GANG_IN_CONTAINERS, .work = work_lease, .amount = 1, .window = 4,
                       .n_bytes = 2 * MIB)},
        {"returning", ATTACK_SHARE, ARE_EITHER, .percent = 45, .returns = true, .seconds = 8,
         ATTACK_BESIDE(NEIGHBOUR_ASKS(NEIGHBOUR), .n = 4, .uid = ATTACKER, .work = work_lease,
                       .amount = 8, .window = 8, .n_bytes = 2 * MIB)},
        {"one-process", ATTACK_SHARE, ARE_EITHER, .percent = 40,
         ATTACK_BESIDE(NEIGHBOUR_ASKS(ATTACKER), .n = 1, .uid = ATTACKER, .work = work_lease,
                       .amount = 255, .window = 4, .n_bytes = 2 * MIB)},
        {"container-root", ATTACK_SHARE, .percent = 40,
         ATTACK_BESIDE(NEIGHBOUR_ASKS(NEIGHBOUR), .n = 100, .uid = ATTACKER,
                       .place = GANG_IN_CONTAINER, .work = work_lease, .amount = 2, .window = 4,
                       .n_bytes = 2 * MIB)},
        {"leases", ATTACK_RATES, .n_gangs = 0},

        /* Others. */
        {"users", ATTACK_LATENCY, .seconds = 8,
         ATTACK(.n = 100, .uid = ATTACKERS, .each_a_user = true, .work = work_lease, .amount = 4,
                .window = 8, .n_bytes = 2 * MIB)},
        {"one-client", ATTACK_LATENCY,
         ATTACK(.n = 1, .uid = ATTACKER, .work = work_lease, .amount = 1, .window = 64,
                .n_bytes = 2 * MIB)},
        {"churn", ATTACK_LATENCY, ARE_EITHER, ATTACK(CROWD, .work = work_churn, .window = 2)},
        {"free-all", ATTACK_LATENCY, ARE_EITHER,
         ATTACK(CROWD, .work = work_free_all, .window = 4, .n_bytes = 2 * MIB)},
        {"withdraw", ATTACK_LATENCY, ARE_EITHER,
         ATTACK(PRESS, .work = work_withdraw, .amount = 2, .window = 16)},
        {"denied", ATTACK_LATENCY, ARE_REFUSED(GPUMEM_E_DENIED),
         ATTACK(CROWD, .work = work_denied, .window = 16)},
        {"tokens", ATTACK_LATENCY, ARE_EITHER, ATTACK(PRESS, .work = work_tokens, .amount = 64)},
        {"waiting", ATTACK_LATENCY, ARE_EITHER,
         ATTACK_BESIDE(HELD_BY_ANOTHER, .n = 16, .uid = ATTACKERS, .each_a_user = true,
                       .work = work_wait, .amount = 15, .window = 2, .n_bytes = NOT_FREE)},
        {"groups", ATTACK_LATENCY, ARE_EITHER,
         ATTACK_BESIDE(HELD_BY_ANOTHER, .n = 2, .uid = ATTACKER, .work = work_groups, .amount = 150,
                       .n_bytes = PART_NOT_FREE)},
        {"stay-mapped", ATTACK_LATENCY, ARE_EITHER,
         ATTACK(CROWD, .work = work_stay_mapped, .window = 4, .n_bytes = 2 * MIB)},
        {"silent", ATTACK_LATENCY, .seconds = 7, ATTACK(CROWD, .work = work_silent)},
        {"holes", ATTACK_LATENCY, ARE_EITHER, ATTACK(CROWD, .work = work_holes, .window = 4)},
        {"waiters", ATTACK_LATENCY,
         ATTACK(.n = 2, .uid = ATTACKER, .work = work_await_often, .amount = 20000,
                .n_bytes = 2 * MIB)},
        {"locks", ATTACK_LATENCY, ARE_EITHER,
         ATTACK(.n = 2, .uid = ATTACKER, .work = work_lock_self, .amount = 20000)},
        {"leavers", ATTACK_LATENCY,
         ATTACK(.n = 2, .uid = ATTACKER, .work = work_leave_holes, .amount = 2)},
        {"hoard", ATTACK_LATENCY, ARE_EITHER, .seconds = 10,
         ATTACK(.n = 2, .uid = ATTACKER, .work = work_hoard, .amount = 1500, .n_bytes = 56 * GIB)},
        {"epoll-sets", ATTACK_LATENCY,
         ATTACK(.n = 1, .uid = ATTACKER, .work = work_epoll_sets, .amount = 10000)},
        {"all-die", ATTACK_LATENCY, .kills = true,
         ATTACK(CROWD, .work = work_statistics, .window = 4, .held = 4)},
};

const unsigned n_attacks = ARRAY_SIZE(attacks);

const struct attack *attack_of(const char *name)
{
        for (unsigned i = 0; i < n_attacks; i++) {
                if (strcmp(attacks[i].name, name) == 0)
                        return &attacks[i];
        }
        return NULL;
}

static unsigned at_most(unsigned n, unsigned max)
{
        return n < max ? n : max;
}

/* All of a user's connections have room in a lane, if a busy machine makes it slow, where 20,000 files may be open. */
#define AMOUNT_SHORTENED 32

static unsigned shortened_amount(const struct gang_rule *rule)
{
        if (rule->work == work_connect)
                return rule->amount; /* a second */
        return at_most(rule->amount, rule->work == work_deadlines ? 2 : AMOUNT_SHORTENED);
}

struct attack attack_shortened(const struct attack *attack)
{
        struct attack shortened = *attack;

        shortened.seconds = 1;
        for (unsigned i = 0; i < shortened.n_gangs; i++) {
                struct gang_rule *rule = &shortened.gangs[i];

                rule->n = at_most(rule->n, 8);
                rule->amount = shortened_amount(rule);
        }
        return shortened;
}
