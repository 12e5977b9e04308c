/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a heap's stream, with a driver that does what the test says. */
#include "client/streams/fences.h"

#include "client/heap/heap.h"
#include "tests/suite.h"
#include "tests/unit/client/fake_driver.h"
#include "tests/unit/heap/heap_world.h"
#include "tests/unit/support/failing_alloc.h"

#define CONTEXT ((CUcontext)(uintptr_t)0x10)
#define STREAM  ((CUstream)(uintptr_t)0x20)

#define EVENTS_MAX (MARKS_MAX + 2)

static struct {
        unsigned n_recorded;
        CUresult record; /* what recording comes to */
        CUresult queries
                [EVENTS_MAX]; /* what each event says, by the order in which they were made */
        bool captures, captures_after; /* the stream, before a record and after it */
        unsigned n_ended;              /* events, with their context */
        unsigned
                n_astray; /* looks at the stream in another context, where its handle may be another one's */
} driver;

static struct heap_world world;
static struct heap heap;
static struct fences fences;
static struct streams streams;
static struct after_call after_call;

static CUresult CUDAAPI create(CUevent *ret_event, unsigned flags)
{
        ck_assert_uint_eq(flags, CU_EVENT_DISABLE_TIMING);
        ck_assert_ptr_eq(context.current, CONTEXT);
        ck_assert_uint_lt(context.n_made + 1, EVENTS_MAX);
        *ret_event = (CUevent)(uintptr_t)++context.n_made;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI record(CUevent event, CUstream stream)
{
        ck_assert_ptr_nonnull(event);
        ck_assert_ptr_eq(stream, STREAM);
        driver.n_recorded += driver.record == CUDA_SUCCESS;
        driver.captures = driver.captures || driver.captures_after;
        return driver.record;
}

static CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus *ret_status)
{
        driver.n_astray += context.current != CONTEXT;
        *ret_status = stream == STREAM && driver.captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                          : CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI query(CUevent event)
{
        return driver.queries[(uintptr_t)event];
}

static void start(void)
{
        memset(&driver, 0, sizeof(driver));
        memset(&context, 0, sizeof(context));
        context.context_id = 1;
        for (unsigned i = 0; i < EVENTS_MAX; i++)
                driver.queries[i] = CUDA_ERROR_NOT_READY;
        is_memory_gone = false;
        world_init(&world, 64 * MIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 2 * MIB);
        fences_init(&fences);
        ck_assert_int_eq(unsetenv("GPUMEM_FENCE"), 0);
        ck_assert_int_eq(streams_init(&streams, &after_call), 0);
        ck_assert_int_eq(streams_open(&streams, &cuda), 0);
}

static void stop(void)
{
        fences_deinit(&fences, &cuda);
        streams_deinit(&streams);
        ck_assert_uint_eq(context.n_freed + driver.n_ended, context.n_made);
        ck_assert_uint_eq(driver.n_astray, 0);
        heap_deinit(&heap);
        world_deinit(&world);
}

/* Something is allocated and freed, beside what stays. Its block. */
static const struct heap_block *free_some(void)
{
        uint64_t address = world_alloc(&heap, 4096);

        (void)world_alloc(&heap, 512);
        (void)world_free(&heap, address);
        return heap_block_at(world.arena, WORLD_START + address);
}

static void record_now(void)
{
        const struct stream_key key = {.context = (uint64_t)(uintptr_t)CONTEXT, .id = 1};

        fences_record(&fences, &heap, &streams, &key, STREAM);
}

static void poll_now(void)
{
        fences_poll(&fences, &heap, &streams, (uint64_t)(uintptr_t)CONTEXT);
}

/* So many of the last epochs are not known to be over. */
static uint64_t n_open(void)
{
        return heap.epoch - heap.n_done_epochs;
}

TEST(what_is_freed_is_idle_when_its_event_is_over)
{
        const struct heap_block *block = free_some();

        record_now();
        ck_assert(context.current == NULL);
        poll_now();
        ck_assert(!heap_is_idle(&heap, block));
        ck_assert(fences_wait_for(&fences));
        driver.queries[1] = CUDA_SUCCESS;
        poll_now();
        ck_assert(heap_is_idle(&heap, block));
        ck_assert(!fences_wait_for(&fences));
}

TEST(where_nothing_was_freed_nothing_is_recorded)
{
        record_now();
        ck_assert_uint_eq(context.n_made, 0);
        (void)free_some();
        record_now();
        record_now();
        ck_assert_uint_eq(driver.n_recorded, 1);
}

TEST(events_are_over_in_their_order)
{
        for (unsigned i = 0; i < 3; i++) {
                (void)free_some();
                record_now();
        }
        driver.queries[2] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 3);
        driver.queries[1] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 1);
        ck_assert(fences_wait_for(&fences));
}

/* They are of one stream. */
TEST(when_the_last_event_is_over_so_are_those_before_it)
{
        for (unsigned i = 0; i < 3; i++) {
                (void)free_some();
                record_now();
        }
        driver.queries[3] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 0);
        ck_assert(!fences_wait_for(&fences));
}

/* The query of an event that a capture caught would end the capture. */
TEST(a_stream_that_captures_has_no_event, .to = 2)
{
        const struct heap_block *block = free_some();

        driver.captures = _i == 0;
        driver.captures_after = _i == 1;
        record_now();
        ck_assert_uint_eq(driver.n_recorded, _i);
        driver.queries[1] = CUDA_ERROR_CAPTURED_EVENT;
        for (unsigned i = 0; i < 3; i++)
                poll_now();
        ck_assert(!heap_is_idle(&heap, block));
        driver.captures = driver.captures_after = false;
        record_now();
        ck_assert_uint_eq(context.n_made, 1);
        driver.queries[1] = CUDA_SUCCESS;
        poll_now();
        ck_assert(heap_is_idle(&heap, block));
}

/* A capture began and ended between the two looks at the stream. That is known at once: the next event, for which
 * nothing more need be freed, is for this one's memory too. */
TEST(an_event_that_a_capture_caught_says_nothing)
{
        const struct heap_block *block = free_some();

        driver.queries[1] = CUDA_ERROR_INVALID_VALUE;
        record_now();
        poll_now();
        driver.queries[1] = CUDA_SUCCESS;
        poll_now();
        ck_assert(!heap_is_idle(&heap, block));
        record_now();
        ck_assert_uint_eq(driver.n_recorded, 2);
        poll_now();
        ck_assert(heap_is_idle(&heap, block));
}

TEST(an_event_that_passed_is_used_again)
{
        for (unsigned i = 0; i < 3; i++) {
                (void)free_some();
                record_now();
                driver.queries[1] = CUDA_SUCCESS;
                poll_now();
        }
        ck_assert_uint_eq(context.n_made, 1);
        ck_assert_uint_eq(driver.n_recorded, 3);
        ck_assert_uint_eq(n_open(), 0);
}

TEST(what_was_waited_for_needs_no_event)
{
        (void)free_some();
        record_now();
        (void)free_some();
        record_now();
        fences_pass(&fences, &heap, heap.epoch - 1);
        ck_assert_uint_eq(n_open(), 1);
        ck_assert(fences_wait_for(&fences));
        fences_pass(&fences, &heap, heap.epoch);
        ck_assert(!fences_wait_for(&fences));
        /* Nothing that was known is forgotten. */
        fences_pass(&fences, &heap, 1);
        ck_assert_uint_eq(n_open(), 0);
}

/* The heap began while others' work was waited for. */
TEST(where_nothing_was_waited_for_events_stay)
{
        (void)free_some();
        record_now();
        fences_pass(&fences, &heap, 0);
        ck_assert(fences_wait_for(&fences));
        driver.queries[1] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 0);
}

/* It may be of a context that has gone: the next one is made again, and is for all that was freed. */
TEST(an_event_that_cannot_be_recorded_is_made_anew)
{
        const struct heap_block *block = free_some();

        driver.record = CUDA_ERROR_INVALID_HANDLE;
        record_now();
        ck_assert_uint_eq(context.n_freed, 1);
        ck_assert(!fences_wait_for(&fences));
        poll_now();
        ck_assert(!heap_is_idle(&heap, block));
        driver.record = CUDA_SUCCESS;
        record_now();
        ck_assert_uint_eq(context.n_made, 2);
        driver.queries[2] = CUDA_SUCCESS;
        poll_now();
        ck_assert(heap_is_idle(&heap, block));
}

/* A driver may crash at the events of a context that has ended, also when there is another one with its handle: it is
 * not asked for them. */
TEST(an_event_ends_with_its_context, .to = 2)
{
        const struct heap_block *block = free_some();

        record_now();
        driver.n_ended = 1;
        if (_i)
                context.context_id++;
        else
                context.has_ended = true;
        driver.queries[1] = CUDA_ERROR_NOT_READY;
        poll_now();
        ck_assert(heap_is_idle(&heap, block));
        (void)free_some();
        record_now();
        ck_assert_uint_eq(driver.n_recorded, _i ? 2 : 1);
        ck_assert_uint_eq(context.n_made, _i ? 2 : 1);
}

/* It is over later then, but over it will be: there are not more and more of them. */
TEST(the_last_of_many_is_recorded_anew)
{
        for (unsigned i = 0; i < MARKS_MAX + 10; i++) {
                (void)free_some();
                record_now();
        }
        ck_assert_uint_eq(context.n_made, MARKS_MAX);
        ck_assert_uint_eq(driver.n_recorded, MARKS_MAX + 10);
        for (unsigned i = 1; i < MARKS_MAX; i++)
                driver.queries[i] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 11);
        driver.queries[MARKS_MAX] = CUDA_SUCCESS;
        poll_now();
        ck_assert_uint_eq(n_open(), 0);
        ck_assert(!fences_wait_for(&fences));
}

TEST(without_memory_nothing_changes)
{
        (void)free_some();
        is_memory_gone = true;
        record_now();
        is_memory_gone = false;
        ck_assert_uint_eq(driver.n_recorded, 0);
        record_now();
        ck_assert_uint_eq(driver.n_recorded, 1);
}

/* Nothing runs in a context that failed or has gone; other errors tell nothing of the work. */
TEST(errors_that_end_all_work_are_told_from_others, .to = 20)
{
        static const struct {
                CUresult result;
                uint64_t n_open;
        } cases[] = {
                {CUDA_ERROR_CONTEXT_IS_DESTROYED, 0},
                {CUDA_ERROR_INVALID_CONTEXT, 0},
                {CUDA_ERROR_INVALID_HANDLE, 0},
                {CUDA_ERROR_ILLEGAL_ADDRESS, 0},
                {CUDA_ERROR_LAUNCH_FAILED, 0},
                {CUDA_ERROR_ECC_UNCORRECTABLE, 0},
                {CUDA_ERROR_LAUNCH_TIMEOUT, 0},
                {CUDA_ERROR_ASSERT, 0},
                {CUDA_ERROR_HARDWARE_STACK_ERROR, 0},
                {CUDA_ERROR_ILLEGAL_INSTRUCTION, 0},
                {CUDA_ERROR_MISALIGNED_ADDRESS, 0},
                {CUDA_ERROR_INVALID_ADDRESS_SPACE, 0},
                {CUDA_ERROR_INVALID_PC, 0},
                {CUDA_ERROR_NVLINK_UNCORRECTABLE, 0},
                {CUDA_ERROR_CONTAINED, 0},
                {CUDA_ERROR_TENSOR_MEMORY_LEAK, 0},
                {CUDA_ERROR_MPS_CLIENT_TERMINATED, 0},
                {CUDA_ERROR_EXTERNAL_DEVICE, 0},
                {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 1},
                {CUDA_ERROR_UNKNOWN, 1},
        };

        (void)free_some();
        record_now();
        driver.queries[1] = cases[_i].result;
        poll_now();
        ck_assert_uint_eq(n_open(), cases[_i].n_open);
}

TESTS_MAIN("fences", .start = start, .stop = stop)
