/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the daemon makes before anybody asks, and cached memory that it gives back in time. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/party.h"
#include "tests/suite.h"

#define LOG_BYTES_MAX 65536
#define PATIENCE_MS   20000

/* Where the daemon's stderr goes, as it is this process's. */
static int log_fd;

static void start(const char *emulator, const char *configuration)
{
        static const char *const options[] = {"--log", "info", NULL};

        log_fd = memfd_create("log", MFD_CLOEXEC);
        ck_assert_int_ge(dup2(log_fd, STDERR_FILENO), 0);
        daemon_start_configured(&gpumemd, emulator, options, configuration);
}

static void stop(void)
{
        daemon_stop(&gpumemd);
}

static const char *read_log(void)
{
        static char log[LOG_BYTES_MAX];
        ssize_t n_bytes = pread(log_fd, log, sizeof(log) - 1, 0);

        ck_assert_int_ge(n_bytes, 0);
        log[n_bytes] = '\0';
        return log;
}

static void await_line(const char *text)
{
        for (unsigned i = 0; i < PATIENCE_MS && !strstr(read_log(), text); i++)
                sleep_ms(1);
        ck_assert_msg(strstr(read_log(), text), "no \"%s\" in:\n%s", text, read_log());
}

TEST(memory_is_there_before_anybody_asks)
{
        struct party party;
        struct message_leased leased;

        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": \"all\", \"warm_bytes\": \"64MiB\"},"
              " {\"pinned\": \"all\", \"warm_bytes\": \"32MiB\"}]}");
        await_line("64.00 MiB of 64.00 MiB are made ahead");
        await_line("32.00 MiB of 32.00 MiB are made ahead");
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
        stop();
}

TEST(a_driver_that_fails_is_no_reason_not_to_serve, NEEDS_EMULATOR)
{
        struct party party;

        start("devices=1,bytes=256MiB,fail=cuMemCreate:3:2",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"64MiB\"}]}");
        await_line("12.00 MiB of 64.00 MiB are made ahead and no more: ");
        party = party_join();
        (void)party_lease(&party, 0, 20 * MIB);
        party_leave(&party);
        stop();
}

TEST(who_asks_meanwhile_is_served)
{
        struct party party;

        start("devices=1,bytes=1GiB,delay=cuMemCreate:50000",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"1GiB\"}]}");
        await_line("1.00 GiB are made ahead");
        party = party_join();
        (void)party_lease(&party, 0, 20 * MIB);
        party_leave(&party);
        stop();
}

TEST(what_is_said_anew_is_made)
{
        start("devices=1,bytes=256MiB", "{}");
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 0);
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"16MiB\"}]}");
        await_line("16.00 MiB of 16.00 MiB are made ahead");
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"24MiB\"}]}");
        await_line("8.00 MiB of 8.00 MiB are made ahead");
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 24 * MIB);
        /* There is as much already. */
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"20MiB\","
                                   " \"return_after_seconds\": 0}]}");
        daemon_await(FIGURE_cached, 20 * MIB);
        stop();
}

TEST(no_more_is_made_than_the_pool_may_hold, NEEDS_EMULATOR)
{
        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": 0, \"warm_bytes\": \"512MiB\"}]}");
        await_line("256.00 MiB of 256.00 MiB are made ahead");
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 256 * MIB);
        stop();
}

static void cache(uint64_t n_bytes)
{
        struct party party = party_join();
        struct message_leased leased = party_lease(&party, 0, n_bytes);

        party_give_back(&party, leased.lease);
        party_leave(&party);
}

TEST(what_is_cached_goes_back_in_time)
{
        start("devices=1,bytes=256MiB",
              "{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        cache(8 * MIB);
        daemon_await(FIGURE_reserved, 0);
        daemon_configure(&gpumemd,
                         "{\"pools\": [{\"device\": 0, \"keep_cached_bytes\": \"8MiB\"}]}");
        await_line("was read again");
        cache(8 * MIB);
        cache(16 * MIB);
        daemon_await(FIGURE_reserved, 16 * MIB);
        stop();
}

TESTS_MAIN("prewarming", .limit_s = 60)
