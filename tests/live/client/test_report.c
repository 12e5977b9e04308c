/* SPDX-License-Identifier: Apache-2.0 */
/* The client's reports: pointers, peaks, refusals, events. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/live/support/listed.h"
#include "tests/live/worlds/solo.h"

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--pinned-bytes", "64MiB", "--device-bytes", "256MiB"));
        daemon_note_fds(&gpumemd);
        solo_open(getuid());
}

static struct gpumem_info describe(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info;
}

TEST(a_pointer_is_described_from_anywhere_inside)
{
        unsigned char *first = must_alloc(GPUMEM_DEVICE, 1000);
        unsigned char *second = must_alloc(GPUMEM_DEVICE, 5000);
        static const unsigned inside[] = {0, 1, 999, 4999, 5119};
        struct listed blocks = listed_now(MESSAGE_BLOCKS);

        ck_assert_uint_eq(blocks.n_rows, 1);
        for (unsigned i = 0; i < ARRAY_SIZE(inside); i++) {
                struct gpumem_info info = describe(second + inside[i]);

                ck_assert_int_eq(info.kind, GPUMEM_DEVICE);
                ck_assert_int_eq(info.place, 0);
                ck_assert_ptr_eq(info.base, second);
                ck_assert_uint_eq(info.n_requested_bytes, 5000);
                ck_assert_uint_eq(info.n_allocated_bytes, 5120);
                ck_assert_ptr_eq(info.block_base, first);
                ck_assert_uint_eq(info.n_block_bytes, 2 * MIB);
                ck_assert_uint_eq(info.block, blocks.blocks[0].block);
                ck_assert_uint_eq(info.is_registered, 0);
                ck_assert_uint_eq(info.is_held, 0);
        }
        listed_free(&blocks);
        must_free(first);
        must_free(second);
}

TEST(what_is_no_allocation_is_not_described)
{
        struct gpumem_info info = {.struct_size = sizeof(info), .place = 77};
        unsigned char *first = must_alloc(GPUMEM_DEVICE, 1000);
        unsigned char *second = must_alloc(GPUMEM_DEVICE, 1000);
        char here;

        must_free(first);
        ck_assert_int_eq(gpumem_describe(client, &here, &info), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, NULL, &info), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, first, &info), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, second + 1024, &info), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(info.place, 77);
        info.struct_size = 4;
        ck_assert_int_eq(gpumem_describe(client, second, &info), -EINVAL);
        must_free(second);
        info.struct_size = sizeof(info);
        ck_assert_int_eq(gpumem_describe(client, second, &info), GPUMEM_E_NOT_OURS);
}

/* "Is this pointer pinned?" */
TEST(pinned_memory_says_whether_the_driver_knows_it)
{
        unsigned char *known = must_alloc(GPUMEM_PINNED, 4096);
        struct gpumem_request request = request_in(NULL, GPUMEM_PINNED, 4096);
        struct gpumem_info info = describe(known + 100);
        void *pointer;

        ck_assert_int_eq(info.kind, GPUMEM_PINNED);
        ck_assert_ptr_eq(info.base, known);
        ck_assert_uint_eq(info.is_registered, 1);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_uint_eq(describe(pointer).is_registered, 0);
        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        must_free(known);
}

TEST(a_clients_peaks_begin_anew)
{
        struct gpumem_stats stats;
        unsigned char *small = must_alloc(GPUMEM_DEVICE, 1000);

        must_free(must_alloc(GPUMEM_DEVICE, 20 * MIB));
        ck_assert_uint_eq(device_stats().n_requested_peak_bytes, 1000 + 20 * MIB);
        ck_assert_int_eq(gpumem_reset_peaks(client, GPUMEM_DEVICE, 0), 0);
        stats = device_stats();
        ck_assert_uint_eq(stats.n_requested_peak_bytes, 1000);
        ck_assert_uint_eq(stats.n_allocated_peak_bytes, 1024);
        ck_assert_uint_eq(stats.n_reserved_peak_bytes, 2 * MIB);
        ck_assert_int_eq(gpumem_reset_peaks(client, GPUMEM_DEVICE, 5), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_reset_peaks(client, (enum gpumem_kind)9, 0), GPUMEM_E_BAD_REQUEST);
        must_free(small);
}

static void expect_no_refusal(void)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), GPUMEM_E_NO_REFUSAL);
}

/* In this thread, whatever another thread was refused. */
static void expect_refusal(int code, uint64_t n_bytes)
{
        struct gpumem_refusal refusal = refusal_of(client);

        ck_assert_int_eq(refusal.code, code);
        ck_assert_uint_eq(refusal.n_bytes, n_bytes);
}

static void *refuse_once(void *unused)
{
        void *pointer;

        ck_assert_int_eq(gpu_use(gpu), 0);
        expect_no_refusal();
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 1000 * MIB, &pointer), GPUMEM_E_TOO_LARGE);
        expect_refusal(GPUMEM_E_TOO_LARGE, 1000 * MIB);
        return unused;
}

TEST(a_thread_learns_why_it_was_refused)
{
        unsigned char *all = must_alloc(GPUMEM_DEVICE, 256 * MIB);
        struct gpumem_client *first = client;
        pthread_t thread;
        void *pointer;

        expect_no_refusal();
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 5000, &pointer), GPUMEM_E_REFUSED);
        ck_assert_int_eq(pthread_create(&thread, NULL, refuse_once, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        expect_refusal(GPUMEM_E_REFUSED, 5000);
        ck_assert_int_eq(refusal_of(client).kind, GPUMEM_DEVICE);
        must_say("256.00 MiB reserved");
        /* A call that succeeds is not a refusal. */
        must_free(must_alloc(GPUMEM_PINNED, 4096));
        expect_refusal(GPUMEM_E_REFUSED, 5000);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0, &pointer), GPUMEM_E_BAD_REQUEST);
        expect_refusal(GPUMEM_E_BAD_REQUEST, 0);
        client = connect_client();
        expect_no_refusal();
        gpumem_disconnect(client);
        client = first;
        must_free(all);
}

/* Of each client that failed in the thread, for the last four of them. */
TEST(a_clients_refusal_stays_when_others_are_refused)
{
        struct gpumem_client *first = client, *others[4];
        void *pointer;

        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 1000 * MIB, &pointer), GPUMEM_E_TOO_LARGE);
        for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
                client = first;
                expect_refusal(GPUMEM_E_TOO_LARGE, 1000 * MIB);
                client = others[i] = connect_client();
                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, (1001 + i) * MIB, &pointer),
                                 GPUMEM_E_TOO_LARGE);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
                client = others[i];
                expect_refusal(GPUMEM_E_TOO_LARGE, (1001 + i) * MIB);
                gpumem_disconnect(client);
        }
        client = first;
        expect_no_refusal();
}

struct seen {
        unsigned n;
        struct gpumem_event last;
};

static struct seen seen[8];

static void note(const struct gpumem_event *event, void *argument)
{
        struct seen *all = argument;

        all[event->kind].n++;
        all[event->kind].last = *event;
}

/* Waits until there is another event of this kind; returns their number. */
static unsigned be_refused_until_told(const struct seen *refused)
{
        unsigned n_told = refused->n, n_refusals = 0;
        time_t start_s = time(NULL);
        void *pointer;

        while (refused->n == n_told && time(NULL) < start_s + 20) {
                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 6000, &pointer), GPUMEM_E_REFUSED);
                n_refusals++;
        }
        ck_assert_uint_eq(refused->n, n_told + 1);
        ck_assert_uint_eq(refused->last.n_suppressed, n_refusals - 1);
        return n_refusals;
}

/* A process that is stopped for the second gets its refusal within it. */
#define TRIES 20

TEST(a_refusal_is_an_event_once_a_second)
{
        unsigned char *all = must_alloc(GPUMEM_DEVICE, 256 * MIB);
        struct seen *refused = &seen[GPUMEM_EVENT_REFUSED];
        unsigned n_told, n_tries = 1;
        void *pointer;

        memset(seen, 0, sizeof(seen));
        ck_assert_int_eq(gpumem_set_event_callback(client, note, seen), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 5000, &pointer), GPUMEM_E_REFUSED);
        ck_assert_uint_eq(refused->n, 1);
        ck_assert_int_eq(refused->last.result, GPUMEM_E_REFUSED);
        ck_assert_int_eq(refused->last.memory, GPUMEM_DEVICE);
        ck_assert_uint_eq(refused->last.n_bytes, 5000);
        ck_assert_uint_eq(refused->last.n_suppressed, 0);
        must_contain(refused->last.text, "reserved");
        while (be_refused_until_told(refused) == 1)
                ck_assert_uint_lt(n_tries++, TRIES);
        n_told = refused->n;
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 5000, &pointer), GPUMEM_E_REFUSED);
        ck_assert_uint_eq(refused->n, n_told);
        must_free(all);
}

/* The heap asks for a sixteenth of its size as its next block, and gets only what it needs. */
TEST(memory_that_is_not_there_is_pressure)
{
        unsigned char *most = must_alloc(GPUMEM_DEVICE, 250 * MIB);
        struct seen *pressure = &seen[GPUMEM_EVENT_PRESSURE];
        void *rest;

        memset(seen, 0, sizeof(seen));
        ck_assert_int_eq(gpumem_set_event_callback(client, note, seen), 0);
        ck_assert_int_gt(try_alloc(GPUMEM_DEVICE, 8 * MIB, &rest), 0);
        ck_assert_uint_eq(pressure->n, 1);
        ck_assert_int_eq(pressure->last.memory, GPUMEM_DEVICE);
        ck_assert_int_eq(pressure->last.place, 0);
        ck_assert_uint_eq(pressure->last.n_bytes, 8 * MIB);
        ck_assert_uint_eq(seen[GPUMEM_EVENT_REFUSED].n, 1);
        must_free(most);
}

/* The callback uses the library: statistics, memory, and calls that would call it again. */
static void use_the_library(const struct gpumem_event *event, void *argument)
{
        void *pointer;

        note(event, argument);
        (void)device_stats();
        ck_assert_int_eq(try_alloc(GPUMEM_PINNED, 4096, &pointer), 0);
        must_free(pointer);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 1000 * MIB, &pointer), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), GPUMEM_E_IN_CALLBACK);
        gpumem_disconnect(client);
}

TEST(a_callback_may_use_the_library)
{
        void *pointer;

        memset(seen, 0, sizeof(seen));
        ck_assert_int_eq(gpumem_set_event_callback(client, use_the_library, seen), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 1000 * MIB, &pointer), GPUMEM_E_TOO_LARGE);
        ck_assert_uint_eq(seen[GPUMEM_EVENT_REFUSED].n, 1);
        must_free(must_alloc(GPUMEM_DEVICE, 4096));
}

static atomic_uint n_inside, n_after_end;
static _Atomic bool ended;

static void dawdle(const struct gpumem_event *event, void *argument)
{
        (void)event;
        (void)argument;
        n_inside++;
        sleep_ms(50);
        if (ended)
                n_after_end++;
}

TEST(a_callback_that_was_replaced_runs_nowhere)
{
        pthread_t thread;

        ck_assert_int_eq(gpumem_set_event_callback(client, dawdle, NULL), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, refuse_once, NULL), 0);
        while (!n_inside)
                sleep_ms(1);
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), 0);
        ended = true;
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(n_inside, 1);
        ck_assert_uint_eq(n_after_end, 0);
}

TESTS_MAIN("report", .limit_s = 60, .start = start, .stop = solo_stop)
