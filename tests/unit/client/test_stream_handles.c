/* SPDX-License-Identifier: Apache-2.0 */
/* The records of open streams. */
#include <string.h>

#include "client/pool/stream_handles.h"
#include "tests/suite.h"

#define N_STREAMS 1000

static struct stream_handles handles;

static void begin(void)
{
        stream_handles_init(&handles);
}

static void end(void)
{
        stream_handles_deinit(&handles);
}

static struct stream_key key_of(uint64_t id)
{
        return (struct stream_key){.context = 0x5000, .id = id};
}

/* Any address that no default stream has. */
static void *stream_of(uint64_t id)
{
        return (void *)(uintptr_t)(0x10000 + id);
}

static struct gpumem_stream *open_stream(uint64_t id)
{
        struct stream_key key = key_of(id);
        struct gpumem_stream *handle;

        ck_assert_int_eq(stream_handles_open(&handles, NULL, stream_of(id), &key, &handle), 0);
        return handle;
}

static uint32_t close_stream(struct gpumem_stream *handle)
{
        uint32_t n_open = UINT32_MAX;

        ck_assert_int_eq(stream_handles_close(&handles, handle, NULL, &n_open), 0);
        return n_open;
}

static void *found(uint64_t id)
{
        struct stream_key key = key_of(id);
        void *stream = NULL;

        return stream_handles_find(&handles, &key, &stream) ? stream : NULL;
}

TEST(each_stream_has_one_record)
{
        static struct gpumem_stream *records[N_STREAMS];

        for (unsigned i = 0; i < N_STREAMS; i++)
                records[i] = open_stream(i);
        for (unsigned i = 0; i < N_STREAMS; i++) {
                ck_assert_ptr_eq(open_stream(i), records[i]);
                ck_assert_ptr_eq(found(i), stream_of(i));
                ck_assert_uint_eq(records[i]->mark.id, i);
                ck_assert_uint_eq(records[i]->mark.scope, 0);
        }
        for (unsigned i = 0; i < N_STREAMS; i++)
                ck_assert_uint_eq(close_stream(records[i]), 1);
        ck_assert_ptr_eq(found(1), stream_of(1));
        for (unsigned i = 0; i < N_STREAMS; i++)
                ck_assert_uint_eq(close_stream(records[i]), 0);
        ck_assert_ptr_null(found(1));
        ck_assert_uint_eq(handles.n_closed, N_STREAMS);
}

/* Default streams have one id in all contexts. */
TEST(default_streams_are_told_apart_by_their_contexts)
{
        struct stream_key first = {.context = 0x5000, .id = 1},
                          second = {.context = 0x6000, .id = 1};
        struct gpumem_stream *one, *other;

        ck_assert_int_eq(stream_handles_open(&handles, NULL, NULL, &first, &one), 0);
        ck_assert_int_eq(stream_handles_open(&handles, NULL, NULL, &second, &other), 0);
        ck_assert_ptr_ne(one, other);
        ck_assert_uint_eq(one->mark.scope, first.context);
        ck_assert_uint_eq(other->mark.scope, second.context);
}

TEST(a_closed_record_is_known_for_a_while)
{
        struct gpumem_stream *handle = open_stream(0);
        struct stack by = {.n_frames = 3}, none = {.n_frames = 7};
        uint32_t n_open;

        ck_assert_int_eq(stream_handles_close(&handles, handle, &by, &n_open), 0);
        for (unsigned i = 1; i < STREAM_HANDLES_KEPT; i++) {
                struct gpumem_stream *other = open_stream(i);

                ck_assert_ptr_ne(other, handle);
                ck_assert_uint_eq(close_stream(other), 0);
                ck_assert_int_eq(stream_handles_close(&handles, handle, &none, &n_open),
                                 GPUMEM_E_CLOSED);
                ck_assert_int_eq(handle->closed_by.n_frames, by.n_frames);
        }
}

/* The record that was closed first serves the next stream, so that there are not more and more. */
TEST(closed_records_are_used_again)
{
        struct gpumem_stream *first = open_stream(0), *handle;

        for (unsigned i = 1; i < STREAM_HANDLES_KEPT; i++)
                (void)open_stream(i);
        (void)close_stream(first);
        for (unsigned i = 1; i < STREAM_HANDLES_KEPT; i++) {
                (void)close_stream(open_stream(N_STREAMS + i));
        }
        ck_assert_uint_eq(handles.n_closed, STREAM_HANDLES_KEPT);
        handle = open_stream(2 * N_STREAMS);
        ck_assert_ptr_eq(handle, first);
        ck_assert_uint_eq(handle->mark.id, 2 * N_STREAMS);
        ck_assert_uint_eq(handles.n_closed, STREAM_HANDLES_KEPT - 1);
}

TEST(the_heap_is_forgotten_at_the_close_and_when_told)
{
        struct gpumem_stream *handle = open_stream(0);
        struct stream_heap *heap = (struct stream_heap *)(uintptr_t)0x7000;
        struct stream_key key = key_of(0), other = key_of(1);

        atomic_store(&handle->heap, heap);
        stream_handles_forget(&handles, &other);
        ck_assert_ptr_eq(atomic_load(&handle->heap), heap);
        stream_handles_forget(&handles, &key);
        ck_assert_ptr_null(atomic_load(&handle->heap));
        atomic_store(&handle->heap, heap);
        (void)close_stream(handle);
        ck_assert_ptr_null(atomic_load(&handle->heap));
}

/* What is left is freed, open or not: the sanitizers tell. */
TEST(the_end_frees_all)
{
        for (unsigned i = 0; i < 100; i++) {
                struct gpumem_stream *handle = open_stream(i);

                if (i % 2)
                        (void)close_stream(handle);
        }
}

TESTS_MAIN("stream_handles", .limit_s = UNLIMITED, .start = begin, .stop = end)
