/* SPDX-License-Identifier: Apache-2.0 */
/* What programs may do wrong with the library: each has its own answer, and outputs are untouched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tests/demo/gpu.h"
#include "tests/live/program.h"
#include "tests/suite.h"

/* What the last call said of itself; `parts` end with NULL. */
static void check_refusal(int result, const char *const *parts)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_int_eq(refusal.code, result);
        for (; *parts; parts++)
                ck_assert_msg(strstr(refusal.text, *parts), "\"%s\" is not in: %s", *parts,
                              refusal.text);
}

static const struct test_case alone = {.name = "alone"};

/* Each bad request has its own answer, and the pointer is left alone. */
TEST(bad_requests_are_told_apart)
{
        struct gpumem_request good = on_device(0, 4096), bad;
        void *untouched = &bad, *pointer = untouched;

#define EXPECT(field, value, code, ...)                                 \
        bad = good;                                                     \
        bad.field = (value);                                            \
        ck_assert_int_eq(gpumem_alloc(client, &bad, &pointer), (code)); \
        ck_assert_ptr_eq(pointer, untouched);                           \
        check_refusal((code), (const char *const[]){__VA_ARGS__, NULL});
        EXPECT(n_bytes, 0, GPUMEM_E_BAD_REQUEST, "n_bytes is 0", "1 byte or more")
        EXPECT(n_bytes, UINT64_MAX, GPUMEM_E_TOO_LARGE, "asked for; all of")
        EXPECT(n_bytes, 258 * MIB, GPUMEM_E_TOO_LARGE, "258.00 MiB")
        EXPECT(kind, (enum gpumem_kind)9, GPUMEM_E_BAD_REQUEST, "kind is 9", "GPUMEM_PINNED (2)")
        EXPECT(place, 1000, GPUMEM_E_NO_POOL, "CUDA device 1000", "it has pools for 0")
        EXPECT(flags, 2, GPUMEM_E_UNSUPPORTED, "flags are 0x2", "GPUMEM_SHAREABLE")
        EXPECT(struct_size, 0, -EINVAL, "struct_size is 0", "sizeof(struct gpumem_request)")
        EXPECT(struct_size, 4, -EINVAL, "struct_size is 4")
        good.kind = GPUMEM_PINNED;
        EXPECT(place, 1000, GPUMEM_E_NO_POOL, "NUMA node 1000", "it has pools for 0")
#undef EXPECT
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
}

TEST(a_stream_of_another_device_is_told, NEEDS_TWO_DEVICES)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer = &request;

        request.place = 1;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_WRONG_STREAM);
        ck_assert_ptr_eq(pointer, &request);
        check_refusal(GPUMEM_E_WRONG_STREAM,
                      (const char *const[]){"CUDA device 0", "place is 1", NULL});
}

/* A GPU's driver may follow such a handle, wherever it points. */
TEST(a_stream_that_is_none_is_told, NEEDS_EMULATOR)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer = &request;

        request.stream = (void *)0x123456;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), -EINVAL);
        ck_assert_ptr_eq(pointer, &request);
}

TEST(a_longer_request_of_a_later_version_is_taken_if_zero)
{
        struct {
                struct gpumem_request request;
                uint64_t later;
        } longer = {.request = on_device(0, 4096)};
        void *pointer;

        longer.request.struct_size = sizeof(longer);
        ck_assert_int_eq(gpumem_alloc(client, &longer.request, &pointer), 0);
        must_free(&longer.request, pointer);
        longer.later = 1;
        ck_assert_int_eq(gpumem_alloc(client, &longer.request, &pointer), -E2BIG);
        check_refusal(-E2BIG, (const char *const[]){"does not know those fields", NULL});
}

TEST(what_is_not_allocated_is_not_freed)
{
        struct gpumem_request request = on_device(0, 4096);
        unsigned char *pointer = must_alloc(&request), *other = must_alloc(&request);
        char here;

        ck_assert_int_eq(gpumem_free(client, &here, request.stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free(client, pointer + 512, request.stream), GPUMEM_E_NOT_OURS);
        must_free(&request, pointer);
        ck_assert_int_eq(gpumem_free(client, pointer, request.stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_NOT_OURS);
        check_device_bytes(0, other, 4096);
        must_free(&request, other);
        ck_assert_int_eq(gpumem_free(client, other, request.stream), GPUMEM_E_NOT_OURS);
}

TEST(without_a_context_there_is_no_device_memory)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer;

        request.stream = NULL;
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_NO_CONTEXT);
        request.kind = GPUMEM_PINNED;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        memset(pointer, 1, 4096);
        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
}

TEST(texts_are_never_missing, .in = &alone)
{
        ck_assert_str_eq(gpumem_strerror(0), "success");
        ck_assert_str_eq(gpumem_strerror(GPUMEM_E_LIMIT),
                         "refused: a limit of the client, tenant or pool would be exceeded");
        ck_assert_str_eq(gpumem_strerror(-ENOMEM), "Cannot allocate memory");
        ck_assert_str_eq(gpumem_strerror(12345), "an unknown result");
        ck_assert_str_eq(gpumem_strerror(-12345), "an unknown result");
        ck_assert_str_eq(gpumem_strerror(INT32_MIN), "an unknown result");
}

TEST(nobody_to_connect_to, .in = &alone)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .socket_path = "/nonexistent/socket"};
        struct gpumem_client *untouched = (void *)&options, *nobody = untouched;
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        char longest[200];

        ck_assert_int_eq(gpumem_connect(&options, &nobody), GPUMEM_E_DISCONNECTED);
        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        options.socket_path = longest;
        ck_assert_int_eq(gpumem_connect(&options, &nobody), -ENAMETOOLONG);
        options.struct_size = 1;
        ck_assert_int_eq(gpumem_connect(&options, &nobody), -EINVAL);
        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
        ck_assert_int_eq(refusal.code, -EINVAL);
        ck_assert_ptr_nonnull(strstr(refusal.text, "struct_size is 1"));
        ck_assert_ptr_eq(nobody, untouched);
        gpumem_disconnect(NULL);
}

/* gpumem_connect fails so, and says so; `parts` end with NULL. */
static void check_connect(int result, const char *const *parts)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *nobody;

        ck_assert_int_eq(gpumem_connect(NULL, &nobody), result);
        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
        ck_assert_int_eq(refusal.code, result);
        for (; *parts; parts++)
                ck_assert_msg(strstr(refusal.text, *parts), "%s", refusal.text);
}

TEST(who_is_not_reached_is_named, .in = &alone)
{
        static const char *const no_file[] = {"/nonexistent/socket", "No such file",
                                              "is gpumemd running", NULL};
        static const char *const no_socket[] = {"/dev/null", "Connection refused", NULL};
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), GPUMEM_E_NO_REFUSAL);
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", "/nonexistent/socket", 1), 0);
        check_connect(GPUMEM_E_DISCONNECTED, no_file);
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", "/dev/null", 1), 0);
        check_connect(GPUMEM_E_DISCONNECTED, no_socket);
}

TEST(settings_are_named, .in = &alone)
{
        static const char *const fraction[] = {"GPUMEM_MEMORY_FRACTION", "\"2\"", "1 at most",
                                               NULL};
        static const char *const size[] = {"GPUMEM_CACHE_SIZE", "\"12parsec\"", "512MiB", NULL};
        static const char *const choice[] = {"GPUMEM_SERVICE_THREAD", "\"no\"", "0, 1", NULL};
        static const char *const words[] = {"GPUMEM_DEBUG", "\"fill,gard\"", "\"gard\"",
                                            "allowed: fill, guard", NULL};

        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", "2", 1), 0);
        check_connect(GPUMEM_E_BAD_FRACTION, fraction);
        ck_assert_int_eq(unsetenv("GPUMEM_MEMORY_FRACTION"), 0);
        ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", "12parsec", 1), 0);
        check_connect(GPUMEM_E_BAD_CACHE_SIZE, size);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "no", 1), 0);
        check_connect(GPUMEM_E_BAD_SERVICE_THREAD, choice);
        ck_assert_int_eq(unsetenv("GPUMEM_SERVICE_THREAD"), 0);
        ck_assert_int_eq(setenv("GPUMEM_DEBUG", "fill,gard", 1), 0);
        check_connect(GPUMEM_E_BAD_DEBUG, words);
}

/* What this machine cannot try is left out, and said so. */

TESTS_MAIN("served", .limit_s = 60, .start = program_start, .stop = program_stop)
