/* SPDX-License-Identifier: Apache-2.0 */
/* The policy in turns, with random events between the parts of its walks, and of clients' ends: its invariants hold after
 * each; no part gives more answers, or lets more blocks go, than its items allow; each request is answered once, and in the
 * end. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/report/stats.h"
#include "daemon/policy/scheduling/service.h"
#include "daemon/policy/state/walk_part.h"
#include "gpumem.h"
#include "tests/random.h"
#include "tests/suite.h"

/* Check's own asserts write to a pipe, also where they hold. */
#define EXPECT(condition)                               \
        do {                                            \
                if (!(condition))                       \
                        ck_abort_msg("%s", #condition); \
        } while (0)

#define N_STEPS     30000
#define N_POOLS     2
#define N_PARTIES   24
#define N_UIDS      5
#define N_SLOTS     16
#define N_SERIALS   16
#define N_JOBS      1024
#define MAX_BYTES   (48 * MIB)
#define MAX_BLOCKS  20
#define ITEMS_MAX   20
#define DEADLINE_NS 50

enum ending { ENDING_NOT, ENDING_DROPS, ENDING_UNMAPS };

static struct party {
        struct client *client;
        enum ending ending;
        bool is_open[N_SERIALS]; /* requests without an answer, by serial */
        uint64_t leases[N_SLOTS], returned[N_SLOTS];
        unsigned n_leases, n_returned;
} parties[N_PARTIES];

static struct {
        struct block *block;
        enum action_kind kind;
} jobs[N_JOBS];

static struct policy *policy;
static struct test_random numbers;
static uint64_t now_ns, n_rests, n_answered, n_expired, n_released;
static unsigned n_jobs;

static unsigned below(uint64_t n)
{
        return (unsigned)test_random_below(&numbers, n);
}

static void join(struct party *party)
{
        struct tenant_key key = {.uid = 1 + below(N_UIDS)};

        *party = (struct party){.client = NULL};
        EXPECT(!policy_add_client(policy, &key, &key, N_SLOTS, NULL, party, &party->client));
}

static void note_answer(const struct action *action)
{
        struct party *party = client_owner(action->client);

        EXPECT(party->is_open[action->serial]);
        party->is_open[action->serial] = false;
        n_answered++;
        n_expired += action->kind == ACTION_REFUSE && action->outcome == GPUMEM_E_TIMED_OUT;
        if (action->kind == ACTION_GRANT)
                party->leases[party->n_leases++] = lease_id(action->lease);
}

/* Returns the answers and the blocks to be made among the actions. */
static unsigned take_all(void)
{
        struct action action;
        unsigned n = 0;

        while ((action = policy_next_action(policy)).kind != ACTION_NONE) {
                n += action.kind == ACTION_GRANT || action.kind == ACTION_REFUSE ||
                     action.kind == ACTION_CREATE;
                n_released += action.kind == ACTION_RELEASE;
                if (action.kind == ACTION_GRANT || action.kind == ACTION_REFUSE)
                        note_answer(&action);
                if (action.kind != ACTION_CREATE && action.kind != ACTION_RELEASE)
                        continue;
                EXPECT(n_jobs < N_JOBS);
                jobs[n_jobs].block = action.block;
                jobs[n_jobs++].kind = action.kind;
        }
        return n;
}

static void ask(struct party *party)
{
        struct policy_ask asked = {.pool = below(N_POOLS), .serial = below(N_SERIALS)};

        if (party->ending || party->is_open[asked.serial])
                return;
        asked.n_bytes = (1 + below(12)) * 2 * MIB;
        asked.keeps_mapped = below(2);
        asked.deadline_ns = below(4) ? now_ns + below(DEADLINE_NS) : 0;
        party->is_open[asked.serial] = true;
        policy_lease(policy, party->client, &asked, now_ns);
}

static uint64_t take_out(uint64_t *ids, unsigned *n)
{
        unsigned at = below(*n);
        uint64_t id = ids[at];

        ids[at] = ids[--*n];
        return id;
}

static void give_back(struct party *party)
{
        bool is_mapped = below(2);
        uint64_t id;

        if (party->ending || !party->n_leases)
                return;
        id = take_out(party->leases, &party->n_leases);
        EXPECT(!policy_return(policy, party->client, id,
                              is_mapped ? RETURN_MAPPED : RETURN_UNMAPPED, now_ns));
        if (is_mapped)
                party->returned[party->n_returned++] = id;
}

static void unmap(struct party *party)
{
        if (!party->ending && party->n_returned)
                EXPECT(!policy_unmapped(policy, party->client,
                                        take_out(party->returned, &party->n_returned), now_ns));
}

static void cancel(struct party *party)
{
        if (!party->ending)
                (void)policy_cancel(policy, party->client, below(N_SERIALS), now_ns);
}

/* A part of the end of a client, for which another comes in the end. */
static void end_some(struct party *party)
{
        unsigned n_most = 1 + below(3);

        if (party->ending == ENDING_UNMAPS) {
                if (policy_client_unmap_some(policy, party->client, n_most, now_ns))
                        return;
                EXPECT(policy_client_dead(policy, party->client, now_ns));
                join(party);
                return;
        }
        party->ending = ENDING_DROPS;
        if (policy_client_drop_some(policy, party->client, n_most, now_ns))
                return;
        EXPECT(!policy_client_eof(policy, party->client, now_ns));
        party->ending = ENDING_UNMAPS;
}

static int random_result(void)
{
        if (below(8))
                return 0;
        return below(2) ? GPUMEM_E_DEVICE_FULL : -EIO;
}

static void work(void)
{
        unsigned at = n_jobs ? below(n_jobs) : 0;
        struct block *block = jobs[at].block;
        enum action_kind kind = jobs[at].kind;
        int r = random_result();

        if (!n_jobs)
                return;
        jobs[at] = jobs[--n_jobs];
        if (kind == ACTION_CREATE)
                policy_created(policy, block, r, r ? NULL : parties, now_ns);
        else
                policy_released(policy, block, now_ns);
}

/* Each answer is so many items, and so is each block that goes; the last one may be begun with one. */
static void serve_some(void)
{
        unsigned n_items = 1 + below(ITEMS_MAX), n_left, n_answers;
        uint64_t n_before;

        (void)take_all();
        n_before = n_released;
        n_left = policy_serve(policy, n_items, now_ns);
        EXPECT(n_left <= n_items);
        n_answers = take_all();
        EXPECT(n_answers <= (n_items + SERVICE_ANSWER_ITEMS - 1) / SERVICE_ANSWER_ITEMS);
        EXPECT(n_released - n_before <= (n_items + PART_RELEASE_ITEMS - 1) / PART_RELEASE_ITEMS);
        n_rests += !n_left;
}

static void set_limit(void)
{
        uint64_t max = below(3) ? (4 + below(20)) * 2 * MIB : LIMIT_NONE;

        EXPECT(!policy_set_limit(policy, below(2) ? LIMIT_OF_CLIENT : LIMIT_OF_TENANT,
                                 POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, max, now_ns));
}

/* What is above it goes back in parts, too. */
static void set_pool_max(void)
{
        uint64_t max_bytes = below(2) ? MAX_BYTES : below(MAX_BYTES / (2 * MIB)) * 2 * MIB;

        (void)take_all();
        EXPECT(!policy_set_pool_max(policy, below(N_POOLS), max_bytes, now_ns));
        EXPECT(!policy_has_action(policy));
}

static void pass_time(void)
{
        now_ns += below(DEADLINE_NS / 2);
        policy_expire(policy, now_ns);
}

static void step(void)
{
        struct party *party = &parties[below(N_PARTIES)];
        unsigned what = below(100);

        if (what < 40)
                ask(party);
        else if (what < 52)
                give_back(party);
        else if (what < 58)
                unmap(party);
        else if (what < 61)
                cancel(party);
        else if (what < 64 || party->ending)
                end_some(party);
        else if (what < 76)
                work();
        else if (what < 97)
                serve_some();
        else if (what < 99)
                pass_time();
        else if (below(2))
                set_pool_max();
        else if (!below(5))
                set_limit();
        policy_check(policy);
}

static void serve_all(void)
{
        do {
                (void)take_all();
                while (n_jobs)
                        work();
        } while (!policy_serve(policy, 64, now_ns) || take_all() || n_jobs);
}

/* No deadline is left in the future. */
static void expect_answers(void)
{
        now_ns += DEADLINE_NS;
        policy_expire(policy, now_ns);
        serve_all();
        for (unsigned i = 0; i < N_PARTIES; i++) {
                for (unsigned serial = 0; serial < N_SERIALS && !parties[i].ending; serial++)
                        EXPECT(!parties[i].is_open[serial]);
        }
        policy_check(policy);
}

static void begin(void)
{
        struct policy_pool pool = {
                .kind = POLICY_DEVICE, .max_bytes = MAX_BYTES, .capacity_bytes = MAX_BYTES};
        uint32_t id;

        EXPECT(!policy_new(&policy));
        for (unsigned i = 0; i < N_POOLS; i++) {
                pool.kind = i ? POLICY_PINNED : POLICY_DEVICE;
                EXPECT(!policy_add_pool(policy, &pool, &id));
        }
        policy_set_max_blocks(policy, MAX_BLOCKS);
        policy_serve_in_turns(policy);
        for (unsigned i = 0; i < N_PARTIES; i++)
                join(&parties[i]);
}

TEST(events_come_between_the_parts)
{
        uint64_t n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);

        numbers = test_random_begin();
        begin();
        for (uint64_t i = 0; i < n_steps; i++) {
                step();
                if (!below(2000))
                        expect_answers();
        }
        expect_answers();
        /* What the test is about did happen. */
        EXPECT(n_rests > n_steps / 100 && n_answered > n_steps / 100 && n_expired > n_steps / 1000);
        policy = policy_free(policy);
}

TESTS_MAIN("parts", .limit_s = UNLIMITED)
