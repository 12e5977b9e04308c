/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of gpumemctl health for given statistics. */
#include "ctl/query/health_rules.h"

#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

static const struct pool_row device_pool = {.id = 3, .kind = GPUMEM_DEVICE};
static const struct pool_row pinned_pool = {.id = 4, .kind = GPUMEM_PINNED};

static struct findings findings;

static void clear(void)
{
        findings_deinit(&findings);
}

/* There is exactly this finding. */
static void expect(enum finding_level level, uint32_t pool, const char *what, const char *part)
{
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_int_eq(findings.findings[0].level, level);
        ck_assert_uint_eq(findings.findings[0].pool, pool);
        ck_assert_str_eq(findings.findings[0].what, what);
        ck_assert_msg(strstr(findings.findings[0].text, part), "%s", findings.findings[0].text);
        clear();
}

static void judge_state(uint64_t device, uint64_t driver)
{
        const struct stats_row stats = {.device = device, .driver = driver, .driver_for = 12999};

        health_check_pool(&device_pool, &stats, &findings);
}

TEST(a_device_that_is_well_is_nothing_to_speak_of)
{
        judge_state(PROTO_DEVICE_WELL, PROTO_DRIVER_ANSWERS);
        ck_assert_uint_eq(findings.n, 0);
}

TEST(a_driver_that_does_not_serve_is_ill)
{
        judge_state(PROTO_DEVICE_WELL, PROTO_DRIVER_STALLED);
        expect(FINDING_UNHEALTHY, 3, "driver_stalled", "for 12 s");
        judge_state(PROTO_DEVICE_WELL, PROTO_DRIVER_LOST);
        expect(FINDING_UNHEALTHY, 3, "driver_lost", "12 s ago");
        judge_state(PROTO_DEVICE_WELL, 77);
        expect(FINDING_UNHEALTHY, 3, "driver_unknown", "does not know");
}

TEST(so_is_a_device_that_nvml_gives_up)
{
        judge_state(PROTO_DEVICE_WORN, PROTO_DRIVER_ANSWERS);
        expect(FINDING_UNHEALTHY, 3, "device_worn", "to be drained and reset, or replaced");
        judge_state(PROTO_DEVICE_NEEDS_RESET, PROTO_DRIVER_ANSWERS);
        expect(FINDING_UNHEALTHY, 3, "device_needs_reset", "needs a reset");
        judge_state(PROTO_DEVICE_NEEDS_REBOOT, PROTO_DRIVER_ANSWERS);
        expect(FINDING_UNHEALTHY, 3, "device_needs_reboot", "needs a reboot");
        judge_state(PROTO_DEVICE_LOST, PROTO_DRIVER_ANSWERS);
        expect(FINDING_UNHEALTHY, 3, "device_lost", "is lost");
        judge_state(UINT64_MAX, PROTO_DRIVER_ANSWERS);
        expect(FINDING_UNHEALTHY, 3, "device_unknown", "does not know");
        judge_state(PROTO_DEVICE_UNKNOWN, PROTO_DRIVER_ANSWERS);
        expect(FINDING_NOTE, 3, "device_unknown", "NVML does not say");
}

TEST(errors_that_are_over_are_notes)
{
        struct stats_row stats = {.device = PROTO_DEVICE_WELL, .device_uncorrected = 2};

        health_check_pool(&device_pool, &stats, &findings);
        expect(FINDING_NOTE, 3, "uncorrected_errors", "loaded: 2");
        stats.device_uncorrected = PROTO_FIGURE_UNKNOWN;
        stats.device_xids = 5;
        stats.device_last_xid = 31;
        health_check_pool(&device_pool, &stats, &findings);
        expect(FINDING_NOTE, 3, "xids", "started: 5, the last one: 31");
        stats.device_xids = PROTO_FIGURE_UNKNOWN;
        health_check_pool(&device_pool, &stats, &findings);
        ck_assert_uint_eq(findings.n, 0);
}

/* Its device statistics are unknown; its memory may still come from a driver. */
TEST(pinned_memory_has_no_device)
{
        struct stats_row stats = {.device = PROTO_FIGURE_UNKNOWN,
                                  .device_uncorrected = PROTO_FIGURE_UNKNOWN,
                                  .device_xids = PROTO_FIGURE_UNKNOWN};

        health_check_pool(&pinned_pool, &stats, &findings);
        ck_assert_uint_eq(findings.n, 0);
        stats.driver = PROTO_DRIVER_STALLED;
        health_check_pool(&pinned_pool, &stats, &findings);
        expect(FINDING_UNHEALTHY, 4, "driver_stalled", "not answered");
}

TEST(what_the_driver_does_not_take_back_is_one_finding_a_pool)
{
        const struct block_row blocks[] = {
                {.pool = 1, .state = LISTED_LEASED, .bytes = GIB, .state_age = 900000},
                {.pool = 1, .state = LISTED_LINGERING, .bytes = 2 * MIB, .state_age = 60000},
                {.pool = 2, .state = LISTED_LINGERING, .bytes = GIB, .state_age = 59999},
                {.pool = 1, .state = LISTED_LINGERING, .bytes = 4 * MIB, .state_age = 90500},
                {.pool = 2, .state = LISTED_SUM, .bytes = GIB, .state_age = LISTING_UNTOLD},
                {.pool = 77777, .state = LISTED_LINGERING, .bytes = GIB, .state_age = 90000},
        };

        health_check_blocks(blocks, ARRAY_SIZE(blocks), 60000, &findings);
        expect(FINDING_UNHEALTHY, 1, "stuck", "not take back 6.00 MiB in 2 blocks, for up to 90 s");
        health_check_blocks(blocks, ARRAY_SIZE(blocks), 100000, &findings);
        ck_assert_uint_eq(findings.n, 0);
        health_check_blocks(NULL, 0, 0, &findings);
        ck_assert_uint_eq(findings.n, 0);
        health_check_blocks(blocks, ARRAY_SIZE(blocks), 0, &findings);
        ck_assert_uint_eq(findings.n, 2);
}

/* Their pids are 0: gpumemd sees those of its own PID namespace and those below it. */
TEST(what_a_process_may_map_is_no_illness)
{
        const struct block_row blocks[] = {
                {.pool = 1,
                 .state = LISTED_LINGERING,
                 .lease = 7,
                 .bytes = MIB,
                 .state_age = 60000},
                {.pool = 1, .state = LISTED_LINGERING, .bytes = 2 * MIB, .state_age = 59999},
                {.pool = 1,
                 .state = LISTED_LINGERING,
                 .lease = 8,
                 .bytes = MIB,
                 .state_age = 90500},
        };

        health_check_blocks(blocks, ARRAY_SIZE(blocks), 60000, &findings);
        expect(FINDING_NOTE, 1, "lingering", "2.00 MiB in 2 blocks linger with processes");
        health_check_blocks(blocks, ARRAY_SIZE(blocks), 0, &findings);
        ck_assert_uint_eq(findings.n, 2);
}

TEST(pools_are_counted_once_by_their_worst)
{
        static struct finding all[] = {
                {.level = FINDING_NOTE, .pool = 1},      {.level = FINDING_UNHEALTHY, .pool = 1},
                {.level = FINDING_NOTE, .pool = 2},      {.level = FINDING_UNHEALTHY, .pool = 1},
                {.level = FINDING_UNHEALTHY, .pool = 4},
        };
        const struct findings some = {.n = ARRAY_SIZE(all), .findings = all};

        ck_assert_uint_eq(findings_count_pools(&some, FINDING_UNHEALTHY), 2);
        ck_assert_uint_eq(findings_count_pools(&some, FINDING_NOTE), 3);
        ck_assert_uint_eq(findings_count_pools(&findings, FINDING_NOTE), 0);
}

TEST(a_daemon_that_is_ending_is_ill_and_no_pool)
{
        const struct event_row events[] = {
                {.what = LISTED_EVENT_STOPPING, .pool = LISTING_NOBODY},
                {.what = LISTED_EVENT_STOPPING, .pool = LISTING_NOBODY},
        };

        ck_assert(!findings_has_daemon(&findings));
        health_check_events(events, ARRAY_SIZE(events), &findings);
        ck_assert(findings_has_daemon(&findings));
        ck_assert_uint_eq(findings_count_pools(&findings, FINDING_NOTE), 0);
        expect(FINDING_UNHEALTHY, LISTING_NOBODY, "ending", "leases nothing more");
}

TEST(memory_that_is_not_cleared_is_one_finding_a_pool)
{
        const struct event_row events[] = {
                {.what = LISTED_EVENT_STARTED, .pool = LISTING_NOBODY},
                {.what = LISTED_EVENT_CANARY, .pool = 1},
                {.what = LISTED_EVENT_CANARY, .pool = 1},
                {.what = LISTED_EVENT_CANARY, .pool = LISTING_NOBODY},
        };

        health_check_events(events, ARRAY_SIZE(events), &findings);
        expect(FINDING_UNHEALTHY, 1, "memory_not_cleared", "one tenant only is served");
        health_check_events(NULL, 0, &findings);
        ck_assert_uint_eq(findings.n, 0);
}

TESTS_MAIN("health_rules", .stop = clear)
