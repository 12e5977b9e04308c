/* SPDX-License-Identifier: Apache-2.0 */
/* The output of gpumemctl free-all about memory that stays. */
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/query/what_stays.h"
#include "gpumem.h"
#include "tests/suite.h"

#define USER  1000
#define OTHER 1001

static const struct client_row clients[] = {
        {.pid = 1, .uid = USER, .state = LISTED_READY, .program = "works"},
        {.pid = 2, .uid = USER, .state = LISTED_LEFT, .program = "left"},
        {.pid = 3, .uid = OTHER, .state = LISTED_ORPHANED, .program = "orphaned"},
};

#define BLOCK(block_state, block_kind, of_pid, of_uid, n_bytes)                                 \
        {                                                                                       \
                .state = (block_state), .kind = (block_kind), .pid = (of_pid), .uid = (of_uid), \
                .lease = (of_pid), .bytes = (n_bytes), .blocks = 1                              \
        }

/* Of this user, in all containers; or of all. */
static struct stays find(const struct block_row *blocks, uint32_t n_blocks, uint32_t uid)
{
        const struct stay_tenant tenant = {.uid = uid};
        struct stays stays;

        stays_find(blocks, n_blocks, clients, ARRAY_SIZE(clients),
                   uid == LISTING_NOBODY ? NULL : &tenant, &stays);
        ck_assert(!stays.is_short_of_memory);
        return stays;
}

static void must_say(const struct stay *stay, const char *name, const char *wanted)
{
        char text[STAY_TEXT_MAX];

        stay_text(stay, text);
        ck_assert_str_eq(stay_name(stay->kind), name);
        ck_assert_str_eq(text, wanted);
}

TEST(each_process_and_reason_is_a_line)
{
        const struct block_row blocks[] = {
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 1, USER, 40 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_DEVICE, 1, USER, 20 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 1, USER, 20 * MIB),
                BLOCK(LISTED_IDLE, GPUMEM_DEVICE, 1, USER, 10 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 2, USER, 8 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 3, OTHER, 6 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_DEVICE, 0, USER, 4 * MIB),
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), LISTING_NOBODY);

        ck_assert_uint_eq(stays.n, 6);
        must_say(&stays.stays[0], "registered",
                 "works (process 1, uid 1000) keeps 60.00 MiB of pinned memory registered until it "
                 "calls gpumem_flush or ends");
        must_say(&stays.stays[1], "mapped",
                 "works (process 1, uid 1000) keeps 20.00 MiB mapped until it runs again, calls "
                 "gpumem_flush or ends");
        must_say(&stays.stays[2], "idle",
                 "works (process 1, uid 1000) keeps 10.00 MiB leased that it does not use: "
                 "free-all again gives it back");
        must_say(&stays.stays[3], "left",
                 "left (process 2, uid 1000) has closed its connection and may keep 8.00 MiB "
                 "mapped until it ends");
        must_say(&stays.stays[4], "orphaned",
                 "orphaned (process 3, uid 1001) has ended; its child keeps 6.00 MiB until the "
                 "child ends");
        must_say(&stays.stays[5], "stuck",
                 "the driver has not taken back 4.00 MiB that no process holds: see gpumemd's "
                 "log");
        stays_deinit(&stays);
}

TEST(what_is_held_stands_last_and_says_what_is_in_allocations)
{
        static const struct client_row holders[] = {
                {.pid = 1, .uid = USER, .device_allocated = MIB, .pinned_allocated = MIB},
                {.pid = 1, .uid = USER, .device_allocated = MIB},
                {.pid = 1, .uid = OTHER, .device_allocated = 7 * MIB},
        };
        const struct block_row blocks[] = {
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, USER, 64 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_PINNED, 1, USER, 2 * MIB),
                BLOCK(LISTED_IDLE, GPUMEM_DEVICE, 1, USER, 2 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, OTHER, 7 * MIB),
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), LISTING_NOBODY);

        ck_assert_uint_eq(stays.n, 3);
        ck_assert_uint_eq(stays.stays[0].kind, STAY_IDLE);
        must_say(&stays.stays[1], "held",
                 "works (process 1, uid 1000) holds 66.00 MiB in its leases");
        stays_find_allocated(&stays, holders, ARRAY_SIZE(holders));
        must_say(&stays.stays[1], "held",
                 "works (process 1, uid 1000) holds 66.00 MiB in its leases, 3.00 MiB of it in "
                 "allocations: gpumem_flush there returns what is empty, not what is attached");
        must_say(&stays.stays[2], "held", "? (process 1, uid 1001) holds 7.00 MiB in its leases");
        ck_assert_uint_eq(stays.stays[0].n_allocated_bytes, LISTING_UNTOLD);
        stays_deinit(&stays);
}

TEST(what_clients_declare_stays_before_what_is_held)
{
        static const struct client_row holders[] = {
                {.pid = 1, .uid = USER, .device_declared = MIB, .pinned_declared = MIB},
                {.pid = 1, .uid = USER, .device_declared = MIB, .program = "old"},
                {.pid = 2, .uid = OTHER, .device_declared = 7 * MIB},
                {.uid = LISTING_NOBODY, .state = LISTED_OTHERS, .device_declared = MIB},
        };
        const struct block_row blocks[] = {BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, USER, 64 * MIB)};
        static const struct stay_tenant user = {.uid = USER};
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), USER);

        stays_find_declared(&stays, holders, ARRAY_SIZE(holders), &user);
        ck_assert_uint_eq(stays.n, 2);
        must_say(&stays.stays[0], "declared",
                 "? (process 1, uid 1000) holds 3.00 MiB of an earlier gpumemd until it frees that "
                 "or ends");
        ck_assert_uint_eq(stays.stays[1].kind, STAY_HELD);
        stays_deinit(&stays);
        stays = find(blocks, 0, LISTING_NOBODY);
        stays_find_declared(&stays, holders, ARRAY_SIZE(holders), NULL);
        ck_assert_uint_eq(stays.n, 2);
        ck_assert_uint_eq(stays.stays[0].pid, 2);
        stays_deinit(&stays);
}

static bool is_first(uint32_t pid, uint32_t uid)
{
        return pid == 1 && uid == USER;
}

/* It can call nothing until it runs again. */
TEST(a_stopped_process_is_not_told_to_flush)
{
        const struct block_row blocks[] = {
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 1, USER, 40 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_DEVICE, 1, USER, 20 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, USER, 10 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 3, USER, 6 * MIB),
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), LISTING_NOBODY);

        stays_find_allocated(&stays, clients, 1);
        stays_find_stopped(&stays, is_first);
        must_say(&stays.stays[0], "registered",
                 "works (process 1, uid 1000) keeps 40.00 MiB of pinned memory registered; it is "
                 "stopped: kill -CONT 1, or end it");
        must_say(&stays.stays[1], "mapped",
                 "works (process 1, uid 1000) keeps 20.00 MiB mapped; it is stopped: kill -CONT 1, "
                 "or end it");
        must_say(&stays.stays[2], "registered",
                 "? (process 3, uid 1000) keeps 6.00 MiB of pinned memory registered until it "
                 "calls gpumem_flush or ends");
        must_say(&stays.stays[3], "held",
                 "works (process 1, uid 1000) holds 10.00 MiB in its leases, 0 B of it in "
                 "allocations; it is stopped: kill -CONT 1, or end it");
        stays_deinit(&stays);
}

/* As in a PID namespace that gpumemd does not see. */
TEST(a_process_without_a_pid_is_no_driver_that_is_stuck)
{
        const struct block_row blocks[] = {
                {.state = LISTED_LINGERING, .uid = USER, .lease = 5, .bytes = MIB, .blocks = 1},
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), USER);

        ck_assert_uint_eq(stays.n, 1);
        must_say(&stays.stays[0], "mapped",
                 "a process whose pid gpumemd does not see (uid 1000) keeps 1.00 MiB mapped until "
                 "it runs again, calls gpumem_flush or ends");
        stays_deinit(&stays);
}

TEST(what_is_cached_or_others_is_no_line)
{
        const struct block_row blocks[] = {
                BLOCK(LISTED_CACHED, GPUMEM_DEVICE, 0, USER, MIB),
                BLOCK(LISTED_SUM, GPUMEM_DEVICE, 0, LISTING_NOBODY, MIB),
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), LISTING_NOBODY);

        ck_assert_uint_eq(stays.n, 0);
        stays_deinit(&stays);
}

TEST(one_users_are_chosen)
{
        const struct block_row blocks[] = {
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 1, USER, MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 3, OTHER, 2 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_PINNED, 9, USER, 4 * MIB),
        };
        struct stays stays = find(blocks, ARRAY_SIZE(blocks), USER);

        ck_assert_uint_eq(stays.n, 2);
        ck_assert_uint_eq(stays.stays[0].pid, 9);
        must_say(&stays.stays[0], "registered",
                 "? (process 9, uid 1000) keeps 4.00 MiB of pinned memory registered until it "
                 "calls gpumem_flush or ends");
        ck_assert_uint_eq(stays.stays[1].pid, 1);
        stays_deinit(&stays);
}

/* One user's containers are tenants each. What no client's row names is the user's. */
TEST(one_containers_are_chosen)
{
        static const struct client_row of_user[] = {
                {.pid = 1, .uid = USER, .container = "job_1", .device_declared = MIB},
                {.pid = 2, .uid = USER, .container = "job_2", .device_declared = MIB},
                {.pid = 3, .uid = USER, .device_declared = MIB},
        };
        static const struct stay_tenant first = {USER, "job_1"}, outside = {USER, ""};
        const struct block_row blocks[] = {
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, USER, MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 2, USER, 2 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 3, USER, 4 * MIB),
                BLOCK(LISTED_LINGERING, GPUMEM_DEVICE, 0, USER, 8 * MIB),
                BLOCK(LISTED_LEASED, GPUMEM_DEVICE, 1, OTHER, 16 * MIB),
        };
        struct stays stays;

        stays_find(blocks, ARRAY_SIZE(blocks), of_user, ARRAY_SIZE(of_user), &first, &stays);
        stays_find_declared(&stays, of_user, ARRAY_SIZE(of_user), &first);
        ck_assert_uint_eq(stays.n, 3);
        ck_assert_uint_eq(stays.stays[0].kind, STAY_UNCHARGED);
        ck_assert_uint_eq(stays.stays[1].kind, STAY_DECLARED);
        ck_assert_uint_eq(stays.stays[1].pid, 1);
        ck_assert_uint_eq(stays.stays[2].n_bytes, MIB);
        stays_deinit(&stays);
        stays_find(blocks, ARRAY_SIZE(blocks), of_user, ARRAY_SIZE(of_user), &outside, &stays);
        ck_assert_uint_eq(stays.n, 2);
        ck_assert_uint_eq(stays.stays[1].n_bytes, 4 * MIB);
        stays_deinit(&stays);
}

TESTS_MAIN("what_stays")
