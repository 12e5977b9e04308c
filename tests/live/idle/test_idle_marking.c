/* SPDX-License-Identifier: Apache-2.0 */
/* Unused memory of one process is available at once to others of its tenant, without its help. */
#include <stdatomic.h>

#include "client/reserve/scan_trigger.h"
#include "tests/live/support/listed.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/solo.h"

/* Of 256 MiB: two processes cannot both have it. */
#define MOST (200 * MIB)

static struct holder one, other;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=288MiB", OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
}

static void start_both(void)
{
        holder_start(&one);
        holder_start(&other);
}

static void end_both(void)
{
        holder_end(&one);
        holder_end(&other);
}

/* No message tells that a block has become idle, so a process that wants it waits. */
#define LONG_MS 20000

TEST(what_is_free_is_anothers)
{
        start_both();
        for (unsigned i = 0; i < 5; i++) {
                ck_assert_int_eq(holder_alloc(&one, MOST, LONG_MS), 0);
                ck_assert_int_eq(holder_alloc(&other, MOST, 0), GPUMEM_E_REFUSED);
                holder_check(&one);
                holder_free_all(&one);
                ck_assert_int_eq(holder_alloc(&other, MOST, LONG_MS), 0);
                holder_check(&other);
                holder_free_all(&other);
        }
        end_both();
}

static void await_idle(void)
{
        AWAIT(daemon_figure(FIGURE_idle) &&
              daemon_figure(FIGURE_idle) == daemon_figure(FIGURE_leased));
}

TEST(what_is_idle_is_listed)
{
        uint64_t n_idle_bytes = 0;
        struct listed listed;

        holder_start(&one);
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        holder_free_all(&one);
        await_idle();
        listed = listed_now(MESSAGE_CLIENTS);
        for (uint32_t i = 0; i < listed.n_rows; i++) {
                const struct client_row *row = &listed.clients[i];

                ck_assert_uint_eq(row->device_idle, row->device_leased);
                ck_assert(!row->device_idle || row->pid == (uint32_t)one.pid);
                n_idle_bytes += row->device_idle;
        }
        ck_assert_uint_ge(n_idle_bytes, MOST);
        listed_free(&listed);
        listed = listed_now(MESSAGE_BLOCKS);
        for (uint32_t i = 0; i < listed.n_rows; i++)
                ck_assert_uint_eq(listed.blocks[i].state, LISTED_IDLE);
        listed_free(&listed);
        holder_end(&one);
}

static _Atomic uint64_t n_revoked_bytes;

static void on_event(const struct gpumem_event *event, void *argument)
{
        (void)argument;
        if (event->kind == GPUMEM_EVENT_REVOKED && event->memory == GPUMEM_DEVICE &&
            event->place == 0)
                atomic_fetch_add(&n_revoked_bytes, event->n_bytes);
}

/* The process that had it is told, at the end of one of its own calls. */
TEST(what_is_taken_is_told)
{
        holder_start(&other);
        solo_open(getuid());
        ck_assert_int_eq(gpumem_set_event_callback(client, on_event, NULL), 0);
        must_free(must_alloc(GPUMEM_DEVICE, MOST));
        await_idle();
        ck_assert_int_eq(holder_alloc(&other, MOST, LONG_MS), 0);
        for (unsigned i = 0; i < LONG_MS && !atomic_load(&n_revoked_bytes); i++) {
                sleep_ms(1);
                must_free(must_alloc(GPUMEM_DEVICE, 4096));
        }
        /* Perhaps in several parts, of which one a second is reported. */
        ck_assert_uint_gt(atomic_load(&n_revoked_bytes), 0);
        ck_assert_uint_eq(atomic_load(&n_revoked_bytes) % (2 * MIB), 0);
        solo_close();
        holder_end(&other);
}

TEST(a_part_of_it_is_too)
{
        start_both();
        for (unsigned i = 0; i < 8; i++)
                ck_assert_int_eq(holder_alloc(&one, 24 * MIB, 0), 0);
        holder_free_all(&one);
        for (unsigned i = 0; i < 2; i++)
                ck_assert_int_eq(holder_alloc(&one, 24 * MIB, 0), 0);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(holder_alloc(&other, 48 * MIB, LONG_MS), 0);
        holder_check(&one);
        holder_check(&other);
        end_both();
}

/* Stopped at some moment after it has freed: memory that is idle by then is taken without its help. */
TEST(a_stopped_process_holds_nothing_up)
{
        int r = GPUMEM_E_REFUSED;

        start_both();
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        holder_free_all(&one);
        for (unsigned ms = 0; r && ms < LONG_MS; ms += 10) {
                holder_stop(&one);
                r = holder_alloc(&other, MOST, 0);
                if (r) {
                        holder_continue(&one);
                        sleep_ms(10);
                }
        }
        ck_assert_int_eq(r, 0);
        holder_check(&other);
        holder_continue(&one);
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), GPUMEM_E_REFUSED);
        holder_check(&other);
        holder_free_all(&other);
        ck_assert_int_eq(holder_alloc(&one, MOST, LONG_MS), 0);
        holder_check(&one);
        end_both();
}

/* The work that uses it is not over, so no other process gets it. */
TEST(what_work_uses_is_not_idle)
{
        start_both();
        ck_assert_int_eq(holder_alloc(&one, 8 * MIB, 0), 0);
        holder_hold_up(&one);
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        holder_free_all(&one);
        ck_assert_int_eq(holder_alloc(&other, MOST, 100), GPUMEM_E_TIMED_OUT);
        holder_go(&one);
        ck_assert_int_eq(holder_alloc(&other, MOST, LONG_MS), 0);
        holder_check(&other);
        end_both();
}

/* Its own process takes it back without a message. */
TEST(what_is_idle_is_had_back)
{
        uint64_t n_hits;

        holder_start(&one);
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        holder_free_all(&one);
        sleep_ms(50);
        n_hits = holder_hits(&one);
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        ck_assert_uint_eq(holder_hits(&one), n_hits + 1);
        holder_check(&one);
        holder_end(&one);
}

TEST(a_process_may_just_leave)
{
        start_both();
        ck_assert_int_eq(holder_alloc(&one, MOST, 0), 0);
        holder_free_all(&one);
        holder_exit(&one);
        ck_assert_int_eq(holder_alloc(&other, MOST, LONG_MS), 0);
        holder_free_all(&other);
        holder_end(&other);
}

TEST(a_killed_process_leaves_nothing_in_use)
{
        start_both();
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_int_eq(holder_alloc(&one, MOST, LONG_MS), 0);
                if (i)
                        holder_free_all(&one);
                holder_kill(&one);
                ck_assert_int_eq(holder_alloc(&other, MOST, LONG_MS), 0);
                holder_check(&other);
                holder_free_all(&other);
                holder_start(&one);
        }
        end_both();
}

/* Without a service thread, the threads that free look. */
TEST(it_goes_without_a_thread)
{
        int r = GPUMEM_E_REFUSED;

        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        start_both();
        for (unsigned i = 0; i < 8; i++)
                ck_assert_int_eq(holder_alloc(&one, 24 * MIB, 0), 0);
        holder_free_all(&one);
        for (unsigned i = 0; r && i < 200; i++) {
                for (unsigned j = 0; j < SCAN_TRIGGER_FREES; j++) {
                        ck_assert_int_eq(holder_alloc(&one, 512, 0), 0);
                        holder_free_all(&one);
                }
                r = holder_alloc(&other, 128 * MIB, 100);
        }
        ck_assert_int_eq(r, 0);
        holder_check(&other);
        end_both();
}

TESTS_MAIN("idle_marking", .limit_s = 120, .start = start, .stop = gpumemd_stop_uncharged)
