/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of gpumemctl leaks for given rows. */
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/query/leak_rules.h"
#include "gpumem.h"
#include "tests/suite.h"

#define USER    1000
#define STOPPED 66
#define OLDER   60000

/* Rows of that user; the arguments set further fields. Each block with a pid has a lease. */
#define CLIENT(pid_, state_, age_, n_bytes, ...)                                    \
        {                                                                           \
                .pid = (pid_), .uid = USER, .state = (state_), .connected = (age_), \
                .device_charged = (n_bytes), ##__VA_ARGS__                          \
        }
#define BLOCK(pool_, pid_, state_, n_bytes, age_, ...)                                           \
        {                                                                                        \
                .pool = (pool_), .uid = USER, .pid = (pid_), .lease = (pid_), .state = (state_), \
                .bytes = (n_bytes), .state_age = (age_), ##__VA_ARGS__                           \
        }

static bool is_stopped(uint32_t pid, uint32_t uid)
{
        return pid == STOPPED && uid == USER;
}

static struct leaks find(const struct client_row *clients, uint32_t n_clients,
                         const struct block_row *blocks, uint32_t n_blocks)
{
        const struct leak_rows rows = {clients, n_clients, blocks, n_blocks};
        struct leaks leaks;

        leaks_find(&rows, OLDER, is_stopped, &leaks);
        ck_assert(!leaks.is_short_of_memory);
        return leaks;
}

static void must_be(const struct leak *leak, enum leak_kind kind, uint32_t pid, uint64_t n_bytes,
                    uint64_t age_ms)
{
        ck_assert_str_eq(leak_name(leak->kind), leak_name(kind));
        ck_assert_uint_eq(leak->pid, pid);
        ck_assert_uint_eq(leak->n_bytes, n_bytes);
        ck_assert_uint_eq(leak->age_ms, age_ms);
}

TEST(clients_that_are_gone_or_stopped_are_found)
{
        const struct client_row clients[] = {
                CLIENT(1, LISTED_READY, OLDER, GIB),
                CLIENT(2, LISTED_LEFT, OLDER, MIB, .pinned_charged = MIB, .program = "gone"),
                CLIENT(3, LISTED_LEFT, OLDER - 1, MIB),
                CLIENT(4, LISTED_ORPHANED, OLDER, MIB),
                CLIENT(STOPPED, LISTED_READY, OLDER, 0, .pinned_charged = MIB),
                CLIENT(STOPPED, LISTED_READY, OLDER - 1, GIB),
                {.pid = STOPPED,
                 .uid = USER + 1,
                 .state = LISTED_READY,
                 .connected = OLDER,
                 .pinned_charged = MIB},
                CLIENT(5, LISTED_READY, OLDER, MIB, .device_declared = MIB),
                {.uid = LISTING_NOBODY,
                 .state = LISTED_OTHERS,
                 .connected = LISTING_UNTOLD,
                 .device_charged = GIB,
                 .device_declared = GIB},
        };
        struct leaks leaks = find(clients, ARRAY_SIZE(clients), NULL, 0);

        ck_assert_uint_eq(leaks.n, 4);
        must_be(&leaks.leaks[0], LEAK_LEFT, 2, 2 * MIB, OLDER);
        ck_assert_str_eq(leaks.leaks[0].program, "gone");
        ck_assert_uint_eq(leaks.leaks[0].pool, LISTING_NOBODY);
        must_be(&leaks.leaks[1], LEAK_ORPHANED, 4, MIB, OLDER);
        must_be(&leaks.leaks[2], LEAK_STOPPED, STOPPED, MIB, OLDER);
        must_be(&leaks.leaks[3], LEAK_DECLARED, 5, MIB, OLDER);
        leaks_deinit(&leaks);
}

TEST(blocks_of_one_process_and_pool_are_one)
{
        const struct client_row clients[] = {
                {.pid = 1,
                 .uid = USER,
                 .state = LISTED_READY,
                 .program = "holder",
                 .container = "job_1"},
        };
        const struct block_row blocks[] = {
                BLOCK(0, 1, LISTED_LINGERING, MIB, OLDER),
                BLOCK(0, 1, LISTED_LINGERING, MIB, 2 * OLDER),
                BLOCK(1, 1, LISTED_LINGERING, GIB, OLDER),
                BLOCK(1, 1, LISTED_LINGERING, GIB, OLDER - 1),
                BLOCK(2, 1, LISTED_LINGERING, 4 * MIB, OLDER, .kind = GPUMEM_PINNED),
                BLOCK(1, 0, LISTED_LINGERING, MIB, OLDER),
                BLOCK(0, 1, LISTED_IDLE, MIB, OLDER),
                BLOCK(0, 1, LISTED_LEASED, MIB, OLDER),
                BLOCK(0, 1, LISTED_LEASED, MIB, OLDER, .passed_on = 2),
                BLOCK(0, 0, LISTED_CACHED, MIB, OLDER),
                {.pool = 0,
                 .uid = LISTING_NOBODY,
                 .state = LISTED_SUM,
                 .bytes = GIB,
                 .state_age = LISTING_UNTOLD,
                 .passed_on = LISTING_UNTOLD},
        };
        struct leaks leaks = find(clients, ARRAY_SIZE(clients), blocks, ARRAY_SIZE(blocks));

        ck_assert_uint_eq(leaks.n, 6);
        must_be(&leaks.leaks[0], LEAK_LINGERING, 1, GIB, OLDER);
        ck_assert_uint_eq(leaks.leaks[0].pool, 1);
        must_be(&leaks.leaks[1], LEAK_LINGERING, 1, 2 * MIB, 2 * OLDER);
        ck_assert_uint_eq(leaks.leaks[1].n_blocks, 2);
        ck_assert_str_eq(leaks.leaks[1].program, "holder");
        ck_assert_str_eq(leaks.leaks[1].container, "job_1");
        must_be(&leaks.leaks[2], LEAK_REGISTERED, 1, 4 * MIB, OLDER);
        must_be(&leaks.leaks[3], LEAK_UNCHARGED, 0, MIB, OLDER);
        must_be(&leaks.leaks[4], LEAK_IDLE, 1, MIB, OLDER);
        must_be(&leaks.leaks[5], LEAK_SHARED, 1, MIB, OLDER);
        leaks_deinit(&leaks);
}

/* It is reported with its client already. */
TEST(what_lingers_of_who_is_gone_is_told_once)
{
        const struct client_row clients[] = {
                CLIENT(1, LISTED_LEFT, OLDER, MIB),
        };
        const struct block_row blocks[] = {
                BLOCK(0, 1, LISTED_LINGERING, MIB, OLDER),
        };
        struct leaks leaks = find(clients, ARRAY_SIZE(clients), blocks, ARRAY_SIZE(blocks));

        ck_assert_uint_eq(leaks.n, 1);
        must_be(&leaks.leaks[0], LEAK_LEFT, 1, MIB, OLDER);
        leaks_deinit(&leaks);
}

/* As those in a PID namespace that gpumemd does not see. */
TEST(what_a_process_without_a_pid_maps_is_not_stuck)
{
        const struct block_row blocks[] = {
                {.uid = USER,
                 .state = LISTED_LINGERING,
                 .lease = 5,
                 .bytes = MIB,
                 .state_age = OLDER},
                {.uid = USER, .state = LISTED_LINGERING, .bytes = GIB, .state_age = OLDER},
        };
        struct leaks leaks = find(NULL, 0, blocks, ARRAY_SIZE(blocks));

        ck_assert_uint_eq(leaks.n, 2);
        must_be(&leaks.leaks[0], LEAK_LINGERING, 0, MIB, OLDER);
        must_be(&leaks.leaks[1], LEAK_UNCHARGED, 0, GIB, OLDER);
        leaks_deinit(&leaks);
}

TEST(each_kind_has_a_name_and_advice)
{
        struct leak leak = {.uid = UINT32_MAX};
        char advice[LEAK_ADVICE_MAX];

        for (unsigned kind = 0; kind < LEAK_N_KINDS; kind++) {
                leak.kind = (enum leak_kind)kind;
                ck_assert_uint_gt(strlen(leak_name(leak.kind)), 0);
                leak_advise(&leak, advice);
                ck_assert_uint_gt(strlen(advice), 0);
                ck_assert_uint_lt(strlen(advice), LEAK_ADVICE_MAX - 1);
        }
}

TEST(advice_names_a_command_that_can_be_typed)
{
        const struct leak leak = {.kind = LEAK_IDLE, .uid = USER};
        char advice[LEAK_ADVICE_MAX];

        leak_advise(&leak, advice);
        ck_assert_str_eq(advice, "others get it; root frees it: gpumemctl reclaim --uid 1000");
}

TESTS_MAIN("leak_rules")
