/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of records: ids, streams and their files, and frees that come late. */
#include "client/watch/trace_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/suite.h"

static char place[] = "/tmp/gpumem-record-XXXXXX";
static char path[64], pinned_path[64];
static struct trace_format *lines;
static char text[4096];

static void start_at(const char *name, const char *pinned_name)
{
        strcpy(strrchr(place, '-'), "-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(place));
        (void)snprintf(path, sizeof(path), "%s/%s", place, name);
        (void)snprintf(pinned_path, sizeof(pinned_path), "%s/%s", place, pinned_name);
        ck_assert_int_eq(trace_format_new(path, "test", &lines), 0);
}

static void start(void)
{
        start_at("x.trace", "x.trace.pinned");
}

static void stop(void)
{
        (void)unlink(path);
        (void)unlink(pinned_path);
        ck_assert_int_eq(rmdir(place), 0);
}

static void start_compressed(void)
{
        start_at("x.trace.gz", "x.trace.pinned.gz");
}

static const struct test_case compressed = {
        .name = "compressed", .limit_s = 60, .start = start_compressed, .stop = stop};

static void end(uint64_t n_lost)
{
        trace_format_free(lines, n_lost);
}

static const char *contents(const char *file_path)
{
        char command[160];
        size_t n;
        FILE *file;

        (void)snprintf(command, sizeof(command), "gzip -dcf %s", file_path);
        file = popen(command, "r");
        ck_assert_ptr_nonnull(file);
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        ck_assert_int_eq(pclose(file), 0);
        return text;
}

static void take_alloc(enum gpumem_kind memory, uint64_t address, uint64_t n_bytes,
                       uint64_t stream_id, uint64_t owner)
{
        struct trace_record record = {.kind = TRACE_RECORD_ALLOC,
                                      .memory = memory,
                                      .owner = owner,
                                      .address = address,
                                      .n_bytes = n_bytes,
                                      .key = {.context = 0x77, .id = stream_id}};

        ck_assert_int_eq(trace_format_take(lines, &record), 0);
}

static void alloc(uint64_t address, uint64_t n_bytes)
{
        take_alloc(GPUMEM_DEVICE, address, n_bytes, 5, 1);
}

static void release(uint64_t address)
{
        struct trace_record record = {.kind = TRACE_RECORD_FREE, .address = address};

        ck_assert_int_eq(trace_format_take(lines, &record), 0);
}

static void disconnect(uint64_t owner)
{
        struct trace_record record = {.kind = TRACE_RECORD_DISCONNECT, .owner = owner};

        ck_assert_int_eq(trace_format_take(lines, &record), 0);
}

TEST(lines_say_what_was_called)
{
        alloc(0x1000, 100);
        alloc(0x2000, UINT64_MAX);
        release(0x1000);
        alloc(0x1000, 1);
        end(0);
        ck_assert_str_eq(contents(path), "# test\n"
                                         "a 0 100 0\n"
                                         "a 1 18446744073709551615 0\n"
                                         "f 0\n"
                                         "a 2 1 0\n"
                                         "# end: 3 allocations, 1 frees\n");
}

TEST(streams_are_numbered_as_they_are_seen)
{
        take_alloc(GPUMEM_DEVICE, 1, 1, 9, 1);
        take_alloc(GPUMEM_DEVICE, 2, 1, 3, 1);
        take_alloc(GPUMEM_DEVICE, 3, 1, 9, 1);
        end(0);
        ck_assert_str_eq(contents(path), "# test\na 0 1 0\na 1 1 1\na 2 1 0\n"
                                         "# end: 3 allocations, 0 frees\n");
}

/* One thread frees 0x1000, another allocates it before the first has recorded. */
TEST(a_free_that_comes_late_is_before_the_next_allocation)
{
        alloc(0x1000, 10);
        alloc(0x1000, 20);
        release(0x1000);
        alloc(0x3000, 30);
        release(0x1000);
        release(0x3000);
        end(0);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\nf 0\na 1 20 0\na 2 30 0\nf 1\nf 2\n"
                                         "# end: 3 allocations, 3 frees\n");
}

TEST(a_lost_allocation_is_missing_and_so_is_its_free)
{
        alloc(0x1000, 10);
        release(0x2000);
        release(0x1000);
        end(1);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\nf 0\n"
                                         "# end: 1 allocations, 1 frees; 2 calls are missing\n");
}

TEST(what_a_client_leaves_ends_with_it)
{
        take_alloc(GPUMEM_DEVICE, 0x1000, 1, 5, 1);
        take_alloc(GPUMEM_DEVICE, 0x2000, 2, 5, 2);
        take_alloc(GPUMEM_DEVICE, 0x3000, 3, 5, 1);
        disconnect(1);
        take_alloc(GPUMEM_DEVICE, 0x1000, 4, 5, 3);
        release(0x1000);
        end(0);
        ck_assert_str_eq(contents(path),
                         "# test\na 0 1 0\na 1 2 0\na 2 3 0\nf 0\nf 2\na 3 4 0\nf 3\n"
                         "# end: 4 allocations, 3 frees\n");
}

TEST(pinned_memory_has_a_file_of_its_own)
{
        alloc(0x1000, 10);
        ck_assert_int_ne(access(pinned_path, F_OK), 0);
        take_alloc(GPUMEM_PINNED, 0x2000, 20, 6, 1);
        release(0x2000);
        release(0x1000);
        end(0);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\nf 0\n# end: 1 allocations, 1 frees\n");
        ck_assert_str_eq(contents(pinned_path),
                         "# test\na 0 20 0\nf 0\n# end: 1 allocations, 1 frees\n");
}

TEST(what_was_flushed_can_be_read)
{
        alloc(0x1000, 10);
        ck_assert_int_eq(trace_format_flush(lines), 0);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\n");
        end(0);
}

/* A compressed file has an end after each disconnect, and goes on after it. */
TEST(compressed_files_go_on_after_a_disconnect, .in = &compressed)
{
        take_alloc(GPUMEM_PINNED, 0x2000, 20, 6, 1);
        alloc(0x1000, 10);
        disconnect(1);
        ck_assert_int_eq(trace_format_flush(lines), 0);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\nf 0\n");
        ck_assert_str_eq(contents(pinned_path), "# test\na 0 20 0\nf 0\n");
        alloc(0x1000, 10);
        end(0);
        ck_assert_str_eq(contents(path), "# test\na 0 10 0\nf 0\na 1 10 0\n"
                                         "# end: 2 allocations, 1 frees\n");
}

TEST(one_process_writes_a_file)
{
        struct trace_format *others;

        ck_assert_int_eq(trace_format_new(path, "test", &others), -EBUSY);
        end(0);
        ck_assert_int_eq(trace_format_new(path, "other", &others), 0);
        trace_format_free(others, 0);
        ck_assert_str_eq(contents(path), "# other\n# end: 0 allocations, 0 frees\n");
}

/* More lines than any buffer on the way holds. */
static void take_many_lines(void)
{
        char command[160];

        for (unsigned i = 0; i < 100000; i++) {
                alloc(i % 1000 + 1, i + 1);
                release(i % 1000 + 1);
        }
        end(0);
        (void)snprintf(command, sizeof(command),
                       "gzip -dcf %s | awk '/^[af]/ {n++} END {exit n != 200000}'", path);
        ck_assert_int_eq(system(command), 0);
}

TEST(many_lines_are_all_there)
{
        take_many_lines();
}

TEST(many_compressed_lines_are_all_there, .in = &compressed)
{
        take_many_lines();
}

TESTS_MAIN("trace_format", .limit_s = 60, .start = start, .stop = stop)
