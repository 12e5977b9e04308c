/* Random deeds of several clients of several tenants in several pools, with workers that take their
 * time, against the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/idle.h"
#include "daemon/policy/overdue.h"
#include "daemon/policy/passing.h"
#include "proto/board.h"
#include "tests/model/policy_model.h"
#include "tests/model/policy_worker.h"
#include "tests/model/random.h"

#define MAX_N_CLIENTS 8
#define N_STEPS       100000ul

/* What clients ask for: in SHARING every second block can be shared, else every eighth. */
enum play_kind { PLAY_MIXED, PLAY_SHARING };

struct play {
        enum play_kind kind;
        struct model model;
        struct worker worker;
        struct random random;
};

static uint64_t from_environment(const char *name, uint64_t fallback)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 0) : fallback;
}

static uint64_t seed(void)
{
        return from_environment("GPUMEM_TEST_SEED", 20240229);
}

static unsigned long n_steps(void)
{
        return from_environment("GPUMEM_TEST_STEPS", N_STEPS);
}

static uint64_t below(struct play *play, uint64_t n)
{
        return random_below(&play->random, n);
}

static bool one_in(struct play *play, uint64_t n)
{
        return below(play, n) == 0;
}

static enum order_kind take_one(struct play *play)
{
        struct model_block *block = NULL;
        enum order_kind kind = model_take(&play->model, &block);

        if (kind == ORDER_CREATE || kind == ORDER_RELEASE)
                worker_add(&play->worker, block, kind);
        return kind;
}

static void settle(struct play *play)
{
        while (take_one(play) != ORDER_NONE)
                continue;
}

static struct model_client *any_client(struct play *play)
{
        struct model_client *client;
        uint64_t n = 0;

        LIST_FOREACH (client, &play->model.clients, link)
                n++;
        if (!n)
                return NULL;
        n = below(play, n);
        LIST_FOREACH (client, &play->model.clients, link) {
                if (n-- == 0)
                        break;
        }
        return client;
}

static struct model_client *any_speaker(struct play *play)
{
        struct model_client *client = any_client(play);

        return client && model_speaks(client) ? client : NULL;
}

static struct model_lease *any_lease(struct play *play)
{
        struct model_client *client = any_speaker(play);
        struct model_lease *lease;
        uint64_t n = 0;

        if (!client || LIST_EMPTY(&client->leases))
                return NULL;
        LIST_FOREACH (lease, &client->leases, client_link)
                n++;
        n = below(play, n);
        LIST_FOREACH (lease, &client->leases, client_link) {
                if (n-- == 0)
                        break;
        }
        return lease;
}

static void join(struct play *play)
{
        static const uint32_t slots[] = {6, 24, 100};
        struct model_client *client;
        unsigned n = 0;

        LIST_FOREACH (client, &play->model.clients, link)
                n++;
        if (n < MAX_N_CLIENTS)
                (void)model_join(&play->model, (uint32_t)below(play, MODEL_N_UIDS),
                                 slots[below(play, ARRAY_SIZE(slots))],
                                 one_in(play, 4) ? MODEL_WITHOUT_WORDS : MODEL_WITH_WORDS);
}

static void end_someone(struct play *play)
{
        struct model_client *client = any_client(play);

        if (!client)
                return;
        if (!client->eof && (client->dead || one_in(play, 2)))
                model_eof(&play->model, client);
        else
                model_dead(&play->model, client);
}

static uint64_t any_deadline(struct play *play)
{
        switch (below(play, 4)) {
        case 0:
                return 0;
        case 1:
                return UINT64_MAX;
        default:
                return play->model.now_ns + below(play, 300);
        }
}

/* Serials are used twice only on purpose, and then it must be known what is unanswered. */
static uint32_t any_serial(struct play *play, const struct model_client *client)
{
        struct model_request *request = TAILQ_FIRST(&play->model.requests);

        if (request && request->client == client && request->predicted && play->model.settled &&
            one_in(play, 10))
                return request->ask.serial;
        return ++play->model.last_serial;
}

static void ask(struct play *play)
{
        static const uint32_t properties[] = {0, 0, 0, 0, 0, 0, 4, POLICY_SHAREABLE};
        struct model_client *client = any_speaker(play);
        struct policy_ask ask;

        if (!client)
                return;
        ask = (struct policy_ask){
                .pool = (uint32_t)below(play, MODEL_N_POOLS),
                .serial = any_serial(play, client),
                .n_bytes = 2 * MIB * (1 + below(play, one_in(play, 8) ? 24 : 10)),
                .properties = play->kind == PLAY_SHARING && one_in(play, 2)
                                      ? POLICY_SHAREABLE
                                      : properties[below(play, ARRAY_SIZE(properties))],
                .deadline_ns = any_deadline(play),
        };
        if (one_in(play, 4))
                ask.n_least_bytes = 2 * MIB * (1 + below(play, 12));
        ask.known_will_do = one_in(play, 3);
        ask.only_known = ask.known_will_do && one_in(play, 3);
        ask.keeps_mapped = one_in(play, 5);
        if (one_in(play, 60))
                ask.pool += MODEL_N_POOLS;
        if (one_in(play, 60))
                ask.n_bytes = below(play, 300) * MIB;
        model_ask(&play->model, client, &ask);
}

/* What an honest client may say of its lease. */
static void flip_one(struct play *play)
{
        struct model_lease *lease = any_lease(play);

        if (lease && lease->busy && lease->client->words)
                model_say(&play->model, lease->client, lease->slot,
                          board_word(lease->id, one_in(play, 3) ? BOARD_BUSY : BOARD_IDLE));
}

/* And what a liar may say of anything: leases of its own and others, of the past and the future. */
static void lie(struct play *play)
{
        struct model_client *client = any_client(play);
        uint64_t id = below(play, play->model.last_lease_id + 4);
        struct model_lease *lease = any_lease(play);
        uint32_t slot;

        if (!client || !client->words)
                return;
        if (lease && one_in(play, 2))
                id = lease->id;
        slot = lease && lease->client == client && one_in(play, 2)
                       ? lease->slot
                       : (uint32_t)below(play, client->n_slots);
        model_say(&play->model, client, slot,
                  one_in(play, 4) ? below(play, UINT64_MAX)
                                  : board_word(id, (enum board_state)below(play, 5)));
}

static void return_one(struct play *play)
{
        struct model_lease *lease = any_lease(play);

        if (lease)
                model_return(&play->model, lease,
                             one_in(play, 2) ? RETURN_MAPPED : RETURN_UNMAPPED);
}

static void unmap_one(struct play *play)
{
        struct model_lease *lease = any_lease(play);

        if (lease)
                model_unmap(&play->model, lease);
}

/* Mostly one that can be shared. */
static void share_one(struct play *play)
{
        struct policy_share terms = {.granted_uid = POLICY_NO_UID};
        struct model_share *old = LIST_FIRST(&play->model.shares);
        struct model_lease *lease = any_lease(play);

        for (unsigned i = 0; i < 8; i++) {
                if (!lease || !(lease->block->properties & POLICY_SHAREABLE))
                        lease = any_lease(play);
        }
        if (!lease)
                return;
        for (unsigned i = 0; i < POLICY_TOKEN_BYTES; i++)
                terms.token.bytes[i] = (uint8_t)below(play, 256);
        if (old && one_in(play, 30))
                terms.token = old->terms.token;
        terms.n_bytes = below(play, lease->block->n_bytes + lease->block->n_bytes / 16);
        if (one_in(play, 2))
                terms.granted_uid = (uint32_t)below(play, MODEL_N_UIDS);
        model_share(&play->model, lease, &terms);
}

/* Mostly one that there is. */
static struct policy_token any_token(struct play *play)
{
        struct model_share *share = LIST_FIRST(&play->model.shares);
        struct policy_token token = {{1}};
        uint64_t n = below(play, 8);

        while (share && n--)
                share = LIST_NEXT(share, link);
        if (share)
                token = share->terms.token;
        if (one_in(play, 20))
                token.bytes[below(play, POLICY_TOKEN_BYTES)] ^= 1;
        return token;
}

static void attach_one(struct play *play)
{
        struct model_client *client = any_speaker(play);
        struct policy_token token = any_token(play);

        if (client)
                model_attach(&play->model, client, &token);
}

static void unshare_one(struct play *play)
{
        struct model_client *client = any_speaker(play);
        struct policy_token token = any_token(play);

        if (client)
                model_unshare(&play->model, client, &token);
}

static void cancel_one(struct play *play)
{
        struct model_request *request = TAILQ_FIRST(&play->model.requests);
        uint64_t n = below(play, 4);

        while (request && n--)
                request = TAILQ_NEXT(request, link);
        if (request && !request->cancelled && !request->failure &&
            !(request->predicted && request->outcome))
                model_cancel(&play->model, request);
}

static void free_all(struct play *play)
{
        struct model_client *client = any_speaker(play);
        uint32_t pool = (uint32_t)below(play, MODEL_N_POOLS + 1);

        if (!client)
                return;
        settle(play);
        model_free_all(&play->model, client, one_in(play, 3) ? SCOPE_NODE : SCOPE_TENANT,
                       pool == MODEL_N_POOLS ? POLICY_ALL_POOLS : pool);
}

static void spoil_one(struct play *play)
{
        struct model_lease *lease = any_lease(play);

        if (!lease)
                return;
        settle(play);
        model_spoil(&play->model, lease);
}

static void work(struct play *play)
{
        (void)worker_do_one(&play->worker, &play->model, &play->random,
                            (uint32_t)below(play, MODEL_N_POOLS));
}

static void pass_time(struct play *play)
{
        if (one_in(play, 100))
                play->model.now_ns += below(play, PASSING_ROUND_NS);
        else
                play->model.now_ns += one_in(play, 20) ? below(play, IDLE_ROB_NS) : below(play, 40);
        if (one_in(play, 100))
                play->model.now_ns += OVERDUE_NS;
        model_expire(&play->model);
        policy_see_idle_of(play->model.policy, (uint32_t)below(play, MODEL_N_POOLS),
                           play->model.now_ns);
}

static void retry(struct play *play)
{
        model_retry(&play->model, (uint32_t)below(play, MODEL_N_POOLS));
}

static void change_strangers(struct play *play)
{
        worker_change_strangers(&play->worker, &play->model, &play->random);
}

/* Mostly wide enough to let something through. */
static uint64_t any_max(struct play *play, unsigned kind)
{
        switch (below(play, 5)) {
        case 0:
                return LIMIT_NONE;
        case 1:
                return kind == LIMIT_LEASES ? below(play, 4) : below(play, 24) * MIB;
        default:
                return kind == LIMIT_LEASES ? 2 + below(play, 12) : (20 + below(play, 120)) * MIB;
        }
}

static void change_limit(struct play *play)
{
        enum limit_scope scope = one_in(play, 2) ? LIMIT_OF_CLIENT : LIMIT_OF_TENANT;
        unsigned kind = (unsigned)below(play, LIMIT_N_KINDS);
        uint32_t uid = POLICY_EVERY_UID;
        uint64_t max = any_max(play, kind);

        if (one_in(play, 6)) {
                model_clear_limits(&play->model);
                return;
        }
        if (scope == LIMIT_OF_TENANT && one_in(play, 2)) {
                uid = (uint32_t)below(play, MODEL_N_UIDS);
                max = one_in(play, 3) ? LIMIT_INHERIT : max;
        }
        model_set_limit(&play->model, scope, uid, kind, max);
}

/* Lower, higher, or more than the driver has. */
static void change_pool(struct play *play)
{
        uint32_t pool = (uint32_t)below(play, MODEL_N_POOLS);
        uint64_t n_device_bytes = play->model.pools[pool].n_device_bytes;

        model_set_pool_max(&play->model, pool,
                           one_in(play, 2) ? n_device_bytes
                                           : 2 * MIB + below(play, n_device_bytes * 5 / 4));
}

/* Mostly it serves. */
static void change_standing(struct play *play)
{
        static const enum standing_state others[] = {STANDING_STALLED, STANDING_STALLED,
                                                     STANDING_LOST};

        settle(play);
        model_set_standing(&play->model, (uint32_t)below(play, MODEL_N_POOLS),
                           one_in(play, 5) ? others[below(play, ARRAY_SIZE(others))]
                                           : STANDING_SERVES);
}

static void do_something(struct play *play)
{
        static const struct {
                unsigned weights[2]; /* by kind of play */
                void (*deed)(struct play *play);
        } deeds[] = {
                {{300, 300}, ask},       {{250, 40}, return_one},
                {{100, 100}, unmap_one}, {{40, 10}, cancel_one},
                {{400, 400}, work},      {{60, 30}, pass_time},
                {{15, 15}, join},        {{14, 6}, end_someone},
                {{6, 6}, free_all},      {{5, 5}, change_strangers},
                {{8, 8}, retry},         {{10, 60}, share_one},
                {{10, 120}, attach_one}, {{2, 6}, unshare_one},
                {{8, 8}, change_limit},  {{6, 6}, change_pool},
                {{10, 10}, spoil_one},   {{250, 60}, flip_one},
                {{30, 30}, lie},         {{6, 6}, change_standing},
        };
        uint64_t n_weights = 0, n;
        unsigned i;

        for (i = 0; i < ARRAY_SIZE(deeds); i++)
                n_weights += deeds[i].weights[play->kind];
        n = below(play, n_weights);
        for (i = 0; n >= deeds[i].weights[play->kind]; i++)
                n -= deeds[i].weights[play->kind];
        deeds[i].deed(play);
}

static void step(struct play *play)
{
        play->model.step++;
        model_note_revoked(&play->model);
        do_something(play);
        if (play->model.kind == MODEL_EXACT || one_in(play, 8))
                settle(play);
        else if (one_in(play, 2))
                (void)take_one(play);
        policy_check(play->model.policy);
        if (play->model.settled)
                model_compare(&play->model);
}

static void work_off(struct play *play)
{
        bool was_busy;

        do {
                was_busy = false;
                settle(play);
                model_compare(&play->model);
                for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                        was_busy |= worker_do_one(&play->worker, &play->model, &play->random, i);
                policy_check(play->model.policy);
        } while (was_busy);
}

static void expect_nothing(const struct model *model, uint32_t pool)
{
        struct pool_figures figures;

        must(model, policy_pool_figures(model->policy, pool, &figures) == 0);
        must(model, figures.charged == 0 && figures.leased == 0 && figures.lingering == 0);
        must(model, figures.n_waiting == 0);
        must(model, !model->closing || (figures.reserved == 0 && figures.n_blocks == 0));
}

/* Everybody leaves: nothing is charged and nothing lingers; then the daemon ends: nothing is left. */
static void end(struct play *play)
{
        while (!LIST_EMPTY(&play->model.clients)) {
                end_someone(play);
                settle(play);
                policy_check(play->model.policy);
                model_compare(&play->model);
        }
        work_off(play);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                expect_nothing(&play->model, i);
        model_shut_down(&play->model);
        work_off(play);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                expect_nothing(&play->model, i);
        must(&play->model, policy_next_deadline(play->model.policy) == UINT64_MAX);
}

/* A play in which next to nobody got anything would prove nothing. A short one may be poor in something:
 * many of them are not. */
static void expect_much_happened(const struct play *play, unsigned long n)
{
        const struct model *model = &play->model;
        bool is_sharing = play->kind == PLAY_SHARING;

        if (n < N_STEPS)
                return;
        must(model, model->n_grants > n / (is_sharing ? 100 : 50));
        must(model, !is_sharing || model->n_attached > n / 100);
        must(model, model->n_revoked > n / (is_sharing ? 10000 : 1000));
        must(model, is_sharing || (model->n_called_in > 0 && model->n_known > 0));
        must(model, model->kind == MODEL_LAZY || model->n_passed > n / 10000);
        must(model, model->n_limit_refusals > n / 500);
        must(model, model->kind == MODEL_LAZY || model->n_overdue > 0);
        must(model, model->n_stalled > 0 && model->n_lost > 0 && model->n_stuck > 0);
}

/* For fewer blocks than there would be. */
#define FEW_FILES 8

static void run(enum play_kind play_kind, enum model_kind kind, uint64_t max_blocks)
{
        unsigned long n = n_steps();
        struct play play = {.kind = play_kind, .random = {.state = seed() + kind}};

        model_init(&play.model, kind);
        policy_set_max_blocks(play.model.policy, max_blocks);
        play.model.few_files = max_blocks != UINT64_MAX;
        worker_init(&play.worker);
        for (unsigned long i = 0; i < n; i++)
                step(&play);
        if (play.model.few_files)
                must(&play.model, n < N_STEPS || play.model.n_short_of_files > 0);
        else
                expect_much_happened(&play, n);
        end(&play);
        model_deinit(&play.model);
}

START_TEST(orders_taken_at_once)
{
        run(PLAY_MIXED, MODEL_EXACT, UINT64_MAX);
}
END_TEST

START_TEST(orders_left_standing)
{
        run(PLAY_MIXED, MODEL_LAZY, UINT64_MAX);
}
END_TEST

START_TEST(much_is_shared)
{
        run(PLAY_SHARING, MODEL_EXACT, UINT64_MAX);
}
END_TEST

START_TEST(much_is_shared_and_orders_left_standing)
{
        run(PLAY_SHARING, MODEL_LAZY, UINT64_MAX);
}
END_TEST

START_TEST(few_files)
{
        run(PLAY_MIXED, MODEL_LAZY, FEW_FILES);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("policy: model");
        TCase *tests = tcase_create("random");
        SRunner *runner;
        int n_failed;

        printf("# GPUMEM_TEST_SEED=%" PRIu64 " GPUMEM_TEST_STEPS=%lu\n", seed(), n_steps());
        (void)fflush(stdout);
        /* The build system's limit is the only one: a slow machine is not an error. */
        tcase_set_timeout(tests, 0);
        tcase_add_test(tests, orders_taken_at_once);
        tcase_add_test(tests, orders_left_standing);
        tcase_add_test(tests, much_is_shared);
        tcase_add_test(tests, much_is_shared_and_orders_left_standing);
        tcase_add_test(tests, few_files);
        suite_add_tcase(suite, tests);
        runner = srunner_create(suite);
        srunner_set_tap(runner, "-");
        srunner_run_all(runner, CK_SILENT);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
