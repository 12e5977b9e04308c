/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of registered streams, with a driver that does what the test says. */
#include "client/streams/streams.h"

#include <stdlib.h>

#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/client/fake_driver.h"

#define CONTEXT   UINT64_C(0x10)
#define N_STREAMS 3
#define N_EVENTS  2000

static struct {
        bool captures[N_STREAMS + 1];
        bool captures_at_record[N_STREAMS + 1];
        unsigned n_looks[N_STREAMS + 1];
        unsigned n_records[N_STREAMS + 1];
        unsigned stream_of[N_EVENTS];   /* that an event was last recorded in */
        uint64_t recorded_at[N_EVENTS]; /* the work that was there then */
        bool is_caught[N_EVENTS];
        uint64_t n_work[N_STREAMS + 1], n_over[N_STREAMS + 1];
        bool is_short; /* no event can be made */
} driver;

static struct streams streams;
static struct after_call after_call;

static CUstream stream(unsigned number)
{
        return (CUstream)(uintptr_t)(0x100 + number);
}

static unsigned number_of(CUstream handle)
{
        return (unsigned)((uintptr_t)handle - 0x100);
}

static struct stream_key key(unsigned number)
{
        return (struct stream_key){.context = CONTEXT, .id = number};
}

static CUresult CUDAAPI is_capturing(CUstream handle, CUstreamCaptureStatus *ret_status)
{
        unsigned number = number_of(handle);

        driver.n_looks[number]++;
        *ret_status = driver.captures[number] ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                              : CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI create(CUevent *ret_event, unsigned flags)
{
        (void)flags;
        if (driver.is_short)
                return CUDA_ERROR_OUT_OF_MEMORY;
        ck_assert_uint_lt(context.n_made + 1, N_EVENTS);
        *ret_event = (CUevent)(uintptr_t)++context.n_made;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI record(CUevent event, CUstream handle)
{
        unsigned number = number_of(handle), index = (unsigned)(uintptr_t)event;

        ck_assert_uint_eq((uint64_t)(uintptr_t)context.current, CONTEXT);
        driver.captures[number] = driver.captures[number] || driver.captures_at_record[number];
        driver.is_caught[index] = driver.captures[number];
        driver.stream_of[index] = number;
        driver.recorded_at[index] = driver.n_work[number];
        driver.n_records[number]++;
        return CUDA_SUCCESS;
}

/* To ask for an event that a capture caught would end the capture. */
static CUresult CUDAAPI query(CUevent event)
{
        unsigned index = (unsigned)(uintptr_t)event, number = driver.stream_of[index];

        ck_assert(!driver.is_caught[index] || !driver.captures[number]);
        if (driver.is_caught[index])
                return CUDA_ERROR_INVALID_VALUE;
        return driver.recorded_at[index] <= driver.n_over[number] ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_READY;
}

static void start(void)
{
        memset(&driver, 0, sizeof(driver));
        memset(&context, 0, sizeof(context));
        atomic_store(&after_call.n, 0);
        context.context_id = 7;
        ck_assert_int_eq(unsetenv("GPUMEM_FENCE"), 0);
        ck_assert_int_eq(streams_init(&streams, &after_call), 0);
        ck_assert_int_eq(streams_open(&streams, &cuda), 0);
}

static void stop(void)
{
        streams_deinit(&streams);
        if (!context.has_ended && context.context_id == 7)
                ck_assert_uint_eq(context.n_freed, context.n_made);
}

static void register_one(unsigned number)
{
        struct stream_key of = key(number);

        ck_assert_int_eq(streams_register(&streams, stream(number), &of), 0);
}

static void register_all(void)
{
        for (unsigned i = 1; i <= N_STREAMS; i++)
                register_one(i);
}

static int unregister(unsigned number)
{
        struct stream_key of = key(number);

        return streams_unregister(&streams, &of);
}

static void work_in(unsigned number)
{
        driver.n_work[number]++;
}

static void finish(unsigned number)
{
        driver.n_over[number] = driver.n_work[number];
}

static bool is_over(uint64_t round)
{
        streams_poll(&streams);
        return round <= streams_done_rounds(&streams, CONTEXT);
}

TEST(without_streams_there_is_no_round)
{
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT), 0);
        register_all();
        ck_assert_uint_eq(streams_begin_round(&streams, 0), 0);
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT + 1), 0);
        ck_assert(streams_forgive(&streams));
        for (unsigned i = 1; i <= N_STREAMS; i++)
                ck_assert_int_eq(unregister(i), 0);
        streams_poll(&streams);
        ck_assert(!streams_forgive(&streams));
}

TEST(a_round_is_over_with_the_last_stream)
{
        uint64_t round;

        register_all();
        for (unsigned i = 1; i <= N_STREAMS; i++)
                work_in(i);
        round = streams_begin_round(&streams, CONTEXT);
        for (unsigned i = N_STREAMS; i; i--) {
                ck_assert(!is_over(round));
                finish(i);
        }
        ck_assert(is_over(round));
        ck_assert(context.current == NULL);
}

/* Each caller that asks meanwhile waits for the same round. */
TEST(a_capture_owes_a_round)
{
        uint64_t first, second;

        register_all();
        work_in(1);
        driver.captures[2] = true;
        first = streams_begin_round(&streams, CONTEXT);
        finish(1);
        work_in(3);
        second = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(streams.n_owed, 1);
        ck_assert(after_call_is_any(&after_call));
        ck_assert_uint_eq(driver.n_records[1] + driver.n_records[3], 0);
        streams_catch_up(&streams);
        ck_assert(!is_over(first));
        driver.captures[2] = false;
        ck_assert(!is_over(first));
        streams_catch_up(&streams);
        ck_assert_uint_eq(streams.n_owed, 0);
        ck_assert(!after_call_is_any(&after_call));
        ck_assert(!is_over(first));
        ck_assert(!is_over(second));
        finish(3);
        ck_assert(is_over(first));
        ck_assert(is_over(second));
}

/* A program makes many calls while it captures. */
TEST(while_a_capture_lasts_one_stream_is_asked)
{
        unsigned n;

        register_all();
        driver.captures[2] = true;
        (void)streams_begin_round(&streams, CONTEXT);
        n = driver.n_looks[1] + driver.n_looks[3];
        for (unsigned i = 0; i < 100; i++)
                streams_catch_up(&streams);
        ck_assert_uint_eq(driver.n_looks[1] + driver.n_looks[3], n);
        driver.captures[2] = false;
}

/* Streams that were marked before one captured are marked again: there may be work in them since. */
TEST(no_mark_of_a_round_that_failed_counts, .to = N_STREAMS)
{
        uint64_t round;

        register_all();
        driver.captures_at_record[1 + _i] = true;
        round = streams_begin_round(&streams, CONTEXT);
        for (unsigned i = 1; i <= N_STREAMS; i++)
                work_in(i);
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT), round);
        driver.captures[1 + _i] = driver.captures_at_record[1 + _i] = false;
        streams_catch_up(&streams);
        for (unsigned i = 1; i <= N_STREAMS; i++) {
                ck_assert(!is_over(round));
                finish(i);
        }
        ck_assert(is_over(round));
}

static CUresult CUDAAPI record_in_a_short_capture(CUevent event, CUstream handle)
{
        CUresult r = record(event, handle);

        driver.is_caught[(uintptr_t)event] = number_of(handle) == 2;
        return r;
}

/* It began and ended between the two looks. */
TEST(a_mark_that_a_short_capture_caught_is_made_again)
{
        struct cuda short_capture = cuda;
        uint64_t round;

        short_capture.cuEventRecord = record_in_a_short_capture;
        ck_assert_int_eq(streams_open(&streams, &short_capture), 0);
        register_all();
        round = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(streams.n_owed, 0);
        ck_assert(!is_over(round));
        ck_assert_uint_eq(streams.n_owed, 1);
        ck_assert_int_eq(streams_open(&streams, &cuda), 0);
        streams_catch_up(&streams);
        ck_assert(is_over(round));
}

TEST(work_of_a_stream_that_was_unregistered_counts)
{
        uint64_t before, after;

        register_all();
        work_in(1);
        before = streams_begin_round(&streams, CONTEXT);
        finish(1);
        work_in(1);
        ck_assert_int_eq(unregister(1), 0);
        ck_assert_int_eq(unregister(2), 0);
        ck_assert_int_eq(unregister(3), 0);
        ck_assert(streams_forgive(&streams));
        after = streams_begin_round(&streams, CONTEXT);
        ck_assert(is_over(before));
        ck_assert(!is_over(after));
        finish(1);
        ck_assert(is_over(after));
        /* Its handle is not used again. */
        driver.n_looks[1] = driver.n_records[1] = 0;
        ck_assert(is_over(streams_begin_round(&streams, CONTEXT)));
        ck_assert_uint_eq(driver.n_looks[1] + driver.n_records[1], 0);
        ck_assert(!streams_forgive(&streams));
}

/* It cannot be marked again once it is unregistered: then it may be gone. What it had to do before still counts. */
TEST(a_stream_whose_mark_a_capture_caught_stays_registered)
{
        struct cuda short_capture = cuda;
        uint64_t before;

        short_capture.cuEventRecord = record_in_a_short_capture;
        register_all();
        work_in(2);
        before = streams_begin_round(&streams, CONTEXT);
        work_in(2);
        ck_assert_int_eq(streams_open(&streams, &short_capture), 0);
        ck_assert_int_eq(unregister(2), GPUMEM_E_CAPTURES);
        ck_assert_int_eq(streams_open(&streams, &cuda), 0);
        ck_assert_int_eq(unregister(2), 0);
        streams_catch_up(&streams);
        ck_assert(!is_over(before));
        driver.n_over[2] = 1;
        ck_assert(is_over(before));
        ck_assert(!is_over(streams_begin_round(&streams, CONTEXT)));
        finish(2);
        ck_assert(is_over(streams_begin_round(&streams, CONTEXT)));
}

TEST(the_last_stream_may_go)
{
        uint64_t round;

        register_one(1);
        work_in(1);
        ck_assert_int_eq(unregister(1), 0);
        round = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_ne(round, 0);
        ck_assert(!is_over(round));
        finish(1);
        ck_assert(is_over(round));
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT), 0);
        ck_assert_int_eq(unregister(1), GPUMEM_E_NOT_REGISTERED);
}

TEST(streams_are_registered_and_unregistered_as_often)
{
        register_one(1);
        register_one(1);
        ck_assert_int_eq(unregister(1), 0);
        work_in(1);
        ck_assert(!is_over(streams_begin_round(&streams, CONTEXT)));
        ck_assert_int_eq(unregister(1), 0);
        ck_assert_int_eq(unregister(1), GPUMEM_E_NOT_REGISTERED);
}

/* Also for those who wait for a round that is owed. */
TEST(with_the_context_all_rounds_are_over, .to = 4)
{
        uint64_t round;

        register_all();
        work_in(1);
        driver.captures[2] = _i % 2;
        round = streams_begin_round(&streams, CONTEXT);
        ck_assert(!is_over(round));
        if (_i / 2)
                context.has_ended = true;
        else
                context.context_id++;
        (void)streams_begin_round(&streams, CONTEXT);
        ck_assert(is_over(round));
        ck_assert_uint_eq(streams.n_owed, 0);
        driver.n_records[1] = 0;
        (void)streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(driver.n_records[1], 0);
        ck_assert_uint_eq(streams.n_counted, 0);
}

/* It may fail to say it at any time, also when the first stream is registered. */
TEST(a_context_whose_id_is_not_said_is_the_same, .to = 2)
{
        uint64_t round;

        context.is_silent = _i;
        register_all();
        work_in(1);
        context.is_silent = !_i;
        round = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(streams.n_counted, N_STREAMS);
        ck_assert(!is_over(round));
        context.is_silent = false;
        ck_assert(!is_over(streams_begin_round(&streams, CONTEXT)));
        context.context_id++;
        (void)streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(streams.n_counted, 0);
}

/* There are not more and more events: the last round is begun again for all frees after those that are under way. So
 * no later call is needed. */
TEST(a_stream_that_does_not_end_holds_few_events)
{
        uint64_t last = 0;

        register_one(1);
        work_in(1);
        for (unsigned i = 0; i < 1000; i++)
                last = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(last, 64);
        ck_assert_uint_le(context.n_made, 64);
        ck_assert_uint_eq(streams.n_owed, 0);
        ck_assert(!is_over(1));
        finish(1);
        ck_assert(is_over(last));
}

/* The last round covers the work that came after it, too. Where it cannot be begun again, a further one is owed. */
TEST(a_round_that_is_begun_again_covers_later_work)
{
        uint64_t last = 0, owed;

        register_one(1);
        register_one(2);
        work_in(1);
        for (unsigned i = 0; i < 64; i++)
                last = streams_begin_round(&streams, CONTEXT);
        work_in(2);
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT), last);
        driver.captures[2] = true;
        owed = streams_begin_round(&streams, CONTEXT);
        ck_assert_uint_eq(owed, last + 1);
        finish(1);
        ck_assert(is_over(last - 1));
        ck_assert(!is_over(last));
        driver.captures[2] = false;
        streams_catch_up(&streams);
        ck_assert(!is_over(last));
        finish(2);
        ck_assert(is_over(last));
        ck_assert(is_over(owed));
}

/* What a stream did until it was unregistered is covered by the last round that is begun again. */
TEST(a_round_that_is_begun_again_covers_a_stream_that_has_parted)
{
        uint64_t last = 0;

        register_one(1);
        register_one(2);
        work_in(1);
        for (unsigned i = 0; i < 64; i++)
                last = streams_begin_round(&streams, CONTEXT);
        work_in(2);
        ck_assert_int_eq(unregister(2), 0);
        ck_assert_uint_eq(streams_begin_round(&streams, CONTEXT), last);
        finish(1);
        ck_assert(!is_over(last));
        finish(2);
        ck_assert(is_over(last));
}

/* A driver that fails owes the round, and the next call tries again. */
TEST(a_driver_that_fails_is_asked_again)
{
        uint64_t round;

        register_all();
        driver.is_short = true;
        round = streams_begin_round(&streams, CONTEXT);
        ck_assert(!is_over(round));
        ck_assert_int_ne(unregister(1), 0);
        driver.is_short = false;
        streams_catch_up(&streams);
        ck_assert(is_over(round));
        ck_assert_int_eq(unregister(1), 0);
}

TEST(the_way_is_read_from_the_environment, .to = 6)
{
        static const struct {
                const char *text;
                int result;
                enum fence_way way;
        } cases[] = {{"", 0, FENCE_STREAMS},
                     {"streams", 0, FENCE_STREAMS},
                     {"context", 0, FENCE_CONTEXT},
                     {"own", 0, FENCE_OWN},
                     {"Own", GPUMEM_E_BAD_FENCE, FENCE_STREAMS},
                     {"context ", GPUMEM_E_BAD_FENCE, FENCE_STREAMS}};
        struct streams read;

        ck_assert_int_eq(setenv("GPUMEM_FENCE", cases[_i].text, 1), 0);
        ck_assert_int_eq(streams_init(&read, &after_call), cases[_i].result);
        ck_assert_int_eq((int)read.way, (int)cases[_i].way);
        /* This driver lacks the call. */
        ck_assert_int_eq(streams_open(&read, &cuda),
                         cases[_i].way == FENCE_CONTEXT ? GPUMEM_E_BAD_FENCE : 0);
        ck_assert_int_eq(streams_open(&read, NULL), 0);
        streams_deinit(&read);
}

TESTS_MAIN("streams", .start = start, .stop = stop)
