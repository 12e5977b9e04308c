/* SPDX-License-Identifier: Apache-2.0 */
/* Events of devices and their drivers are kept, and clients are told. */
#include "tests/live/support/told.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

/* The first pool's. */
static void expect_event(enum listed_event what, const char *text)
{
        struct event_row row = told_await(what, 0, LISTING_NOBODY);

        ck_assert_uint_eq(row.pool, 0);
        ck_assert_msg(strstr(row.text, text), "%s", row.text);
}

/* One that hangs, and one whose device is lost. */
TEST(what_becomes_of_a_driver_is_told_and_its_return, .to = 2)
{
        struct frame frame = lease_frame(0, 8 * MIB, 0);
        struct party party = party_join();

        daemon_fault(&gpumemd, gpumemd.pid, _i ? "lost=cuMemCreate:1" : "hang=cuMemCreate:1");
        party_say(&party, &frame, MESSAGE_LEASE);
        if (_i)
                expect_event(LISTED_EVENT_LOST, "the device is lost");
        else
                expect_event(LISTED_EVENT_STALLED, "does not answer");
        expect_error(party.fd, party.serial, _i ? GPUMEM_E_DRIVER : GPUMEM_E_STALLED);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        expect_event(LISTED_EVENT_BACK, "answers again");
}

TEST(an_error_that_nvml_tells_of_is_told)
{
        daemon_nvml(&gpumemd, "xid=0:79\n");
        expect_event(LISTED_EVENT_HEALTH, "XID 79");
}

/* The rows of a kind that say so, of pool 0; the number of times, once there are any. */
static uint64_t await_text(enum listed_event what, const char *text)
{
        struct link *link = open_admin_link("told");
        uint64_t n_times = 0;

        for (unsigned ms = 0; ms < AWAIT_MS && !n_times; ms++) {
                struct told told = told_fetch(link, 0, UINT32_C(1) << what);

                for (uint32_t i = 0; i < told.n_rows; i++) {
                        const struct event_row *row = &told.rows[i];

                        ck_assert_uint_eq(row->uid, LISTING_NOBODY);
                        if (row->pool == 0 && strstr(row->text, text))
                                n_times += row->times;
                }
                ck_assert_uint_eq(told.next, told.end);
                told_free(&told);
                if (!n_times)
                        sleep_ms(1);
        }
        ck_assert_msg(n_times, "no event %s says: %s", listed_event_name(what), text);
        link_free(link);
        return n_times;
}

static const struct {
        const char *line;
        uint64_t state;
        const char *text;
} states[] = {
        {"remapped=0:1\n", PROTO_DEVICE_WORN, "NVML says: to be drained and reset"},
        {"recovery=0:1\n", PROTO_DEVICE_NEEDS_RESET, "NVML says: needs a reset"},
        {"recovery=0:2\n", PROTO_DEVICE_NEEDS_REBOOT, "NVML says: needs a reboot"},
        {"result=0:15\n", PROTO_DEVICE_LOST, "NVML says: lost"},
};

TEST(what_nvml_says_of_a_device_is_told_and_that_it_is_well_again, .to = ARRAY_SIZE(states))
{
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        daemon_nvml(&gpumemd, states[_i].line);
        ck_assert_uint_eq(await_text(LISTED_EVENT_HEALTH, states[_i].text), 1);
        daemon_await_first(FIGURE_device, states[_i].state, states[_i].state);
        if (states[_i].state == PROTO_DEVICE_LOST)
                (void)await_text(LISTED_EVENT_LOST, "the device is lost");
        daemon_nvml(&gpumemd, "");
        ck_assert_uint_eq(await_text(LISTED_EVENT_HEALTH, "NVML says: well"), 1);
        daemon_await(FIGURE_driver, PROTO_DRIVER_ANSWERS);
        if (states[_i].state == PROTO_DEVICE_LOST)
                (void)await_text(LISTED_EVENT_BACK, "answers again");
}

/* Something is cached that the driver does not take back when its room is needed; until it does. */
static void get_stuck(struct party *party)
{
        struct frame frame = lease_frame(0, 128 * MIB, 0);

        party_give_back(party, party_lease(party, 0, 200 * MIB).lease);
        daemon_await(FIGURE_cached, 200 * MIB);
        daemon_fault(&gpumemd, gpumemd.pid, "count=cuMemRelease\nfail=cuMemRelease:*:999");
        party_say(party, &frame, MESSAGE_LEASE);
        expect_error(party->fd, party->serial, GPUMEM_E_REFUSED);
        daemon_await(FIGURE_lingering, 200 * MIB);
}

static void get_loose(void)
{
        daemon_fault(&gpumemd, gpumemd.pid, "");
        daemon_await(FIGURE_lingering, 0);
}

/* So many releases have been tried. */
static void await_calls(unsigned n_wanted)
{
        unsigned n = 0;
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/devices/calls.%d", gpumemd.place, (int)gpumemd.pid);
        for (unsigned ms = 0; ms < AWAIT_MS && n < n_wanted; ms += 5) {
                FILE *file = fopen(path, "re");

                if (file) {
                        (void)fscanf(file, "%u", &n);
                        (void)fclose(file);
                }
                sleep_ms(5);
        }
        ck_assert_uint_ge(n, n_wanted);
        ck_assert_int_eq(unlink(path), 0);
}

/* Once for each time, however often the driver is asked. */
TEST(what_the_driver_does_not_take_back_is_told_once)
{
        struct party party = party_join();

        get_stuck(&party);
        ck_assert_uint_eq(
                await_text(LISTED_EVENT_STUCK, "the driver did not take back 209715200 bytes"), 1);
        await_calls(2);
        ck_assert_uint_eq(await_text(LISTED_EVENT_STUCK, ""), 1);
        get_loose();
        get_stuck(&party);
        ck_assert_uint_eq(await_text(LISTED_EVENT_STUCK, ""), 2);
        get_loose();
}

TEST(a_driver_that_clears_nothing_is_told)
{
        daemon_stop(&gpumemd);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB,dirty=1", OPTIONS("--canary", "on"));
        n_fds_before = daemon_quiet_fds(&gpumemd);
        ck_assert_uint_eq(await_text(LISTED_EVENT_CANARY, "the driver does not clear memory"), 1);
}

TESTS_MAIN("events_devices", .limit_s = 60, .start = frames_start, .stop = frames_stop,
           .can_run = machine_is_emulated, .needs = "faults of the emulated driver")
