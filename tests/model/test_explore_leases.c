/* SPDX-License-Identifier: Apache-2.0 */
/* Every state that a few clients and the daemon can get into with idle leases, whatever the order of their steps,
 * whichever process ends or stops at any of them. Up to GPUMEM_TEST_STEPS states of each world. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/explore.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_STATES_MAX 20000

/* Clients of one tenant, and of two; blocks; what each asks for; faults, revocations without a request, lies,
 * cancels; whether KNOWN will do, and whether it is asked for alone. */
static const struct world_kind kinds[] = {
        {"one client, revoked", 1, {0}, 1, {2}, 0, 2, 0, 1, true, false, MUTANT_NONE},
        {"one client, faults", 1, {0}, 1, {2}, 2, 1, 0, 0, true, false, MUTANT_NONE},
        {"two of a tenant", 2, {0, 0}, 1, {1, 1}, 0, 0, 0, 0, false, false, MUTANT_NONE},
        {"two of a tenant, known", 2, {0, 0}, 1, {2, 1}, 0, 0, 0, 0, true, false, MUTANT_NONE},
        {"two of a tenant, a fault", 2, {0, 0}, 1, {1, 1}, 1, 0, 0, 0, true, false, MUTANT_NONE},
        {"two tenants", 2, {0, 1}, 1, {1, 1}, 0, 1, 0, 0, true, false, MUTANT_NONE},
        {"two tenants, faults", 2, {0, 1}, 1, {1, 1}, 2, 0, 0, 0, true, false, MUTANT_NONE},
        {"two tenants, two blocks", 2, {0, 1}, 2, {2, 2}, 1, 0, 0, 1, true, false, MUTANT_NONE},
        {"three of two tenants", 3, {0, 0, 1}, 2, {2, 1, 1}, 1, 1, 0, 0, true, false, MUTANT_NONE},
        {"two of a tenant, only known", 2, {0, 0}, 1, {2, 1}, 0, 1, 0, 0, true, true, MUTANT_NONE},
        {"only known, a fault", 2, {0, 0}, 1, {2, 1}, 1, 0, 0, 0, true, true, MUTANT_NONE},
        {"only known, two tenants",
         3,
         {0, 0, 1},
         2,
         {2, 1, 1},
         0,
         0,
         0,
         0,
         true,
         true,
         MUTANT_NONE},
        {"a liar", 3, {0, 0, 1}, 2, {2, 1, 1}, 0, 1, 2, 0, true, true, MUTANT_NONE},
};

static const struct world_kind mutants[] = {
        {"marks what it uses", 1, {0}, 1, {1}, 0, 1, 0, 0, false, false, MUTANT_IDLE_WHILE_USED},
        {"uses what was revoked", 1, {0}, 1, {1}, 0, 1, 0, 0, false, false, MUTANT_USES_REVOKED},
        {"believes in KNOWN", 1, {0}, 1, {2}, 0, 1, 0, 0, true, false, MUTANT_KNOWN_UNMAPPED},
        {"forgets what was known", 1, {0}, 1, {2}, 0, 1, 0, 0, true, true, MUTANT_KNOWN_FORGETS},
};

static uint64_t n_states_max(void)
{
        return test_number_from_environment("GPUMEM_TEST_STEPS", N_STATES_MAX);
}

TEST(no_state_is_wrong, .to = ARRAY_SIZE(kinds))
{
        struct exploration result = explore(&kinds[_i], n_states_max(), true);

        (void)printf("# %s: %" PRIu64 " states%s, %" PRIu64
                     " steps between them, up to %u in a row\n",
                     kinds[_i].name, result.n_states, result.complete ? ", which are all" : "",
                     result.n_edges, result.n_steps_most);
        (void)fflush(stdout);
        ck_assert_msg(!result.broken, "%s", result.broken);
}

/* What the explorer must find, or it would find nothing. */
TEST(what_is_wrong_is_found, .to = ARRAY_SIZE(mutants))
{
        struct exploration result = explore(&mutants[_i], N_STATES_MAX, false);

        ck_assert_msg(result.broken, "\"%s\" is not found", mutants[_i].name);
        (void)printf("# %s: found as \"%s\" after %" PRIu64 " states\n", mutants[_i].name,
                     result.broken, result.n_states);
        (void)fflush(stdout);
}

/* The build system's limit is the only one: a slow machine is not an error. */
TESTS_MAIN("states", .limit_s = UNLIMITED)
