/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the daemon creates before a client asks, and cached memory that it gives back in time. */
#include "tests/live/support/world.h"
#include "tests/live/worlds/party.h"

static void start(const char *emulator, const char *configuration)
{
        log_begin();
        daemon_start_configured(&gpumemd, emulator, OPTIONS("--log", "info"), configuration);
}

TEST(memory_is_there_before_anybody_asks)
{
        struct party party;
        struct message_leased leased;

        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": \"all\", \"warm_bytes\": \"64MiB\"},"
              " {\"pinned\": \"all\", \"warm_bytes\": \"32MiB\"}]}");
        log_await("prewarmed 64.00 MiB of 64.00 MiB");
        log_await("prewarmed 32.00 MiB of 32.00 MiB");
        ck_assert_uint_eq(daemon_first_figure(FIGURE_cached), 64 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 96 * MIB);
        party = party_join();
        leased = party_lease(&party, 0, 32 * MIB);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_reserved), 64 * MIB);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_leased), 32 * MIB);
        party_give_back(&party, leased.lease);
        leased = party_lease(&party, party.pinned, 16 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 96 * MIB);
        party_give_back(&party, leased.lease);
        party_leave(&party);
}

static void lease_once(uint64_t n_bytes)
{
        struct party party = party_join();
        struct message_leased leased = party_lease(&party, 0, n_bytes);

        party_give_back(&party, leased.lease);
        party_leave(&party);
}

TEST(a_driver_that_fails_is_no_reason_not_to_serve, NEEDS_EMULATOR)
{
        start("devices=1,bytes=256MiB,fail=cuMemCreate:3:2",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"64MiB\"}]}");
        log_await("prewarming stopped after 12.00 MiB of 64.00 MiB: ");
        lease_once(20 * MIB);
}

TEST(who_asks_meanwhile_is_served)
{
        start("devices=1,bytes=1GiB,delay=cuMemCreate:50000",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"1GiB\"}]}");
        log_await("prewarming 1.00 GiB");
        lease_once(20 * MIB);
}

TEST(what_is_said_anew_is_made)
{
        start("devices=1,bytes=256MiB", "{}");
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 0);
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"16MiB\"}]}");
        log_await("prewarmed 16.00 MiB of 16.00 MiB");
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"24MiB\"}]}");
        log_await("prewarmed 8.00 MiB of 8.00 MiB");
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 24 * MIB);
        /* The pool has that much already. */
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"20MiB\","
                                   " \"return_after_seconds\": 0}]}");
        daemon_await(FIGURE_cached, 20 * MIB);
}

TEST(no_more_is_made_than_the_pool_may_hold, NEEDS_EMULATOR)
{
        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"512MiB\"}]}");
        log_await("prewarmed 256.00 MiB of 256.00 MiB");
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 256 * MIB);
}

TEST(what_is_cached_goes_back_in_time)
{
        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        lease_once(8 * MIB);
        daemon_await(FIGURE_reserved, 0);
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"keep_cached_bytes\": \"8MiB\","
                                   " \"return_after_seconds\": 0}]}");
        log_await("configuration reloaded");
        lease_once(8 * MIB);
        lease_once(16 * MIB);
        daemon_await(FIGURE_reserved, 16 * MIB);
}

TESTS_MAIN("prewarming", .limit_s = 60, .stop = gpumemd_stop)
