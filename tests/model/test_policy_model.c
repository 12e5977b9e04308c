/* SPDX-License-Identifier: Apache-2.0 */
/* Random deeds against the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/model/policy_play.h"
#include "tests/suite.h"

#define N_STEPS 100000ul

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

static void step(struct play *play)
{
        play->model.step++;
        model_note_revoked(&play->model);
        play_do_something(play);
        if (play->model.kind == MODEL_EXACT || play_one_in(play, 8))
                play_settle(play);
        else if (play_one_in(play, 2))
                (void)play_take_one(play);
        policy_check(play->model.policy);
        if (play->model.settled)
                model_compare(&play->model);
}

static void work_off(struct play *play)
{
        bool was_busy;

        do {
                was_busy = false;
                play_settle(play);
                model_compare(&play->model);
                for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                        was_busy |= worker_do_one(&play->worker, &play->model, &play->random, i);
                policy_check(play->model.policy);
        } while (was_busy);
}

static void expect_nothing(const struct model *model, uint32_t pool)
{
        struct pool_stats stats;

        must(model, policy_pool_stats(model->policy, pool, &stats) == 0);
        must(model, stats.charged == 0 && stats.leased == 0 && stats.lingering == 0);
        must(model, stats.n_waiting == 0);
        must(model, !model->closing || (stats.reserved == 0 && stats.n_blocks == 0));
}

/* Everybody leaves: nothing is charged and nothing lingers; then the daemon ends: nothing is left. */
static void end(struct play *play)
{
        /* The last step may have revoked leases, and left its actions standing. */
        model_note_revoked(&play->model);
        while (!LIST_EMPTY(&play->model.clients)) {
                play_end_someone(play);
                play_settle(play);
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

/* A play in which hardly any client got anything would prove nothing. A short one may be poor in something:
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
        must(model, is_sharing || (model->n_recalled > 0 && model->n_known > 0));
        must(model, model->kind == MODEL_LAZY || model->n_bypassed > n / 10000);
        must(model, model->n_limit_refusals > n / 500);
        must(model, model->kind == MODEL_LAZY || model->n_timed_out > 0);
        must(model, model->n_stalled > 0 && model->n_lost > 0 && model->n_unreleasable > 0);
        must(model, model->n_reclaimed > n / (is_sharing ? 10000 : 1000));
        must(model, model->n_prewarmed > n / (is_sharing ? 10000 : 1000));
        must(model, model->n_from_unowned > 0 && model->n_returned > 0 && model->n_uncached > 0);
        must(model, is_sharing || model->n_aged > 0);
        must(model, model->n_told_of_pressure > n / 10000);
}

/* For fewer blocks than there would be. One is kept. */
#define FEW_FDS 12

static void run(enum play_kind play_kind, enum model_kind kind, uint64_t max_blocks)
{
        unsigned long n = n_steps();
        struct play play = {.kind = play_kind, .random = {.state = seed() + kind}};

        model_init(&play.model, kind);
        policy_set_max_blocks(play.model.policy, max_blocks);
        play.model.max_blocks = max_blocks;
        play.model.few_fds = max_blocks != UINT64_MAX;
        worker_init(&play.worker);
        for (unsigned long i = 0; i < n; i++)
                step(&play);
        if (play.model.few_fds)
                must(&play.model, n < N_STEPS || play.model.n_short_of_fds > 0);
        else
                expect_much_happened(&play, n);
        end(&play);
        model_deinit(&play.model);
}

/* One daemon after another is told to end while it is in use. */
#define LIFE_STEPS 500

static void live(struct play *play, enum model_kind kind, unsigned long n)
{
        play->kind = PLAY_MIXED;
        model_init(&play->model, kind);
        worker_init(&play->worker);
        for (unsigned long i = 0; i < n; i++) {
                if (i == n / 2) {
                        play_settle(play);
                        model_drain(&play->model);
                        play_settle(play);
                        play->kind = PLAY_ENDING;
                }
                step(play);
        }
        end(play);
        model_deinit(&play->model);
}

static void run_to_ends(enum model_kind kind)
{
        struct play play = {.random = {.state = seed() + 2 + kind}};
        unsigned long n = n_steps();
        uint64_t n_drained = 0;

        for (unsigned long i = 0; i < n; i += LIFE_STEPS) {
                live(&play, kind, n - i < LIFE_STEPS ? n - i : LIFE_STEPS);
                n_drained += play.model.n_drained;
        }

        ck_assert(n < N_STEPS || n_drained > n / 4000);
}

TEST(actions_taken_at_once)
{
        run(PLAY_MIXED, MODEL_EXACT, UINT64_MAX);
}

TEST(actions_left_standing)
{
        run(PLAY_MIXED, MODEL_LAZY, UINT64_MAX);
}

TEST(much_is_shared)
{
        run(PLAY_SHARING, MODEL_EXACT, UINT64_MAX);
}

TEST(much_is_shared_and_actions_left_standing)
{
        run(PLAY_SHARING, MODEL_LAZY, UINT64_MAX);
}

TEST(few_fds)
{
        run(PLAY_MIXED, MODEL_LAZY, FEW_FDS);
}

TEST(ended_while_in_use)
{
        run_to_ends(MODEL_EXACT);
}

TEST(ended_while_in_use_and_actions_left_standing)
{
        run_to_ends(MODEL_LAZY);
}

int main(void)
{
        printf("# GPUMEM_TEST_SEED=%" PRIu64 " GPUMEM_TEST_STEPS=%lu\n", seed(), n_steps());
        /* The build system's limit is the only one: a slow machine is not an error. */
        return run_all_tests(&(const struct test_case){.name = "random", .limit_s = UNLIMITED},
                             run_suite);
}
