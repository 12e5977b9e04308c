/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls of the library: each has its own error, and outputs stay untouched. */
#include <errno.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/program.h"

/* The text of the last refusal, of gpumem_connect if there is no client; `parts` end with NULL. */
static void check_refusal(struct gpumem_client *of, int result, const char *const *parts)
{
        for (; *parts; parts++)
                last_refusal_says(of, result, *parts);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct test_case alone = {.name = "alone"};

/* Each wrong request has its own error, and the pointer stays untouched. */
TEST(bad_requests_are_told_apart)
{
        struct gpumem_request good = on_device(0, 4096), bad;
        void *untouched = &bad, *pointer = untouched;

#define EXPECT(field, value, code, ...)                                 \
        bad = good;                                                     \
        bad.field = (value);                                            \
        ck_assert_int_eq(gpumem_alloc(client, &bad, &pointer), (code)); \
        ck_assert_ptr_eq(pointer, untouched);                           \
        check_refusal(client, (code), PARTS(__VA_ARGS__));
        EXPECT(n_bytes, 0, GPUMEM_E_BAD_REQUEST, "n_bytes is 0", "1 byte or more")
        EXPECT(n_bytes, UINT64_MAX, GPUMEM_E_TOO_LARGE, "requested; all of")
        EXPECT(n_bytes, 258 * MIB, GPUMEM_E_TOO_LARGE, "258.00 MiB")
        EXPECT(kind, (enum gpumem_kind)9, GPUMEM_E_BAD_REQUEST, "kind is 9", "GPUMEM_PINNED (2)")
        EXPECT(place, 1000, GPUMEM_E_NO_POOL, "CUDA device 1000", "it has pools for 0")
        EXPECT(flags, 32, GPUMEM_E_UNSUPPORTED, "flags are 0x20", "GPUMEM_SHAREABLE")
        EXPECT(struct_size, 0, -EINVAL, "struct_size is 0", "sizeof(struct gpumem_request)")
        EXPECT(struct_size, 4, -EINVAL, "struct_size is 4")
        good.kind = GPUMEM_PINNED;
        EXPECT(place, 1000, GPUMEM_E_NO_POOL, "NUMA node 1000", "it has pools for 0")
#undef EXPECT
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
}

TEST(a_pool_that_is_not_there_is_told_where_no_memory_is_asked_for)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 1000, &stats), GPUMEM_E_NO_POOL);
        check_refusal(client, GPUMEM_E_NO_POOL, PARTS("CUDA device 1000", "it has pools for 0"));
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_PINNED, 77, 0), GPUMEM_E_NO_POOL);
        check_refusal(client, GPUMEM_E_NO_POOL, PARTS("NUMA node 77", "it has pools for 0"));
}

TEST(a_stream_of_another_device_is_told, NEEDS_TWO_DEVICES)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer = &request;

        request.place = 1;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_WRONG_STREAM);
        ck_assert_ptr_eq(pointer, &request);
        check_refusal(client, GPUMEM_E_WRONG_STREAM, PARTS("CUDA device 0", "place is 1"));
}

/* A program may look for a second daemon before it asks why the first one refused it. */
TEST(a_connect_that_fails_leaves_a_clients_refusal)
{
        const struct gpumem_options nowhere = {.struct_size = sizeof(nowhere),
                                               .socket_path = "/nonexistent/socket"};
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        struct gpumem_client *other;

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 1000, &stats), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_connect(&nowhere, &other), GPUMEM_E_DISCONNECTED);
        last_refusal_says(client, GPUMEM_E_NO_POOL, "CUDA device 1000");
        last_refusal_says(NULL, GPUMEM_E_DISCONNECTED, nowhere.socket_path);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 1000, &stats), GPUMEM_E_NO_POOL);
        last_refusal_says(NULL, GPUMEM_E_DISCONNECTED, nowhere.socket_path);
}

/* A GPU's driver might follow such a handle, so this runs on the emulated one only. */
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
        last_refusal_says(client, -E2BIG, "does not know those fields");
}

TEST(structs_of_an_earlier_version_are_taken)
{
        struct {
                struct gpumem_stats stats;
                uint64_t later;
        } longer = {.stats = {.struct_size = sizeof(longer)}};
        struct gpumem_stats shorter = {.struct_size = offsetof(struct gpumem_stats, n_hits),
                                       .n_hits = 77};
        struct gpumem_request request = on_device(0, 4096);
        void *pointer;

        request.struct_size = offsetof(struct gpumem_request, flags);
        request.flags = UINT32_MAX;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &shorter), 0);
        ck_assert_uint_eq(shorter.n_requested_bytes, 4096);
        ck_assert_uint_eq(shorter.n_hits, 77);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &longer.stats), -EINVAL);
        must_free(&request, pointer);
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
        struct gpumem_client *untouched = (void *)&options, *refused = untouched;
        char longest[200];

        ck_assert_int_eq(gpumem_connect(&options, &refused), GPUMEM_E_DISCONNECTED);
        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        options.socket_path = longest;
        ck_assert_int_eq(gpumem_connect(&options, &refused), -ENAMETOOLONG);
        options.struct_size = 1;
        ck_assert_int_eq(gpumem_connect(&options, &refused), -EINVAL);
        last_refusal_says(NULL, -EINVAL, "struct_size is 1");
        ck_assert_ptr_eq(refused, untouched);
        gpumem_disconnect(NULL);
}

/* With this in the environment gpumem_connect fails with this code and text. */
static const struct {
        const char *name, *value;
        int result;
        const char *parts[4];
} settings[] = {
        {"GPUMEM_SOCKET",
         "/nonexistent/socket",
         GPUMEM_E_DISCONNECTED,
         {"/nonexistent/socket", "No such file", "is gpumemd running"}},
        {"GPUMEM_SOCKET", "/dev/null", GPUMEM_E_DISCONNECTED, {"/dev/null", "not a socket"}},
        {"GPUMEM_MEMORY_FRACTION",
         "2",
         GPUMEM_E_BAD_FRACTION,
         {"GPUMEM_MEMORY_FRACTION", "\"2\"", "1 at most"}},
        {"GPUMEM_CACHE_SIZE",
         "12parsec",
         GPUMEM_E_BAD_CACHE_SIZE,
         {"GPUMEM_CACHE_SIZE", "\"12parsec\"", "512MiB"}},
        {"GPUMEM_MEMORY_LIMIT",
         "much",
         GPUMEM_E_BAD_LIMIT,
         {"GPUMEM_MEMORY_LIMIT", "\"much\"", "512MiB"}},
        {"GPUMEM_SERVICE_THREAD",
         "no",
         GPUMEM_E_BAD_SERVICE_THREAD,
         {"GPUMEM_SERVICE_THREAD", "\"no\"", "0, 1"}},
        {"GPUMEM_DEBUG",
         "fill,gard",
         GPUMEM_E_BAD_DEBUG,
         {"GPUMEM_DEBUG", "\"fill,gard\"", "\"gard\"", "allowed: fill, guard"}},
        {"GPUMEM_FENCE",
         "all",
         GPUMEM_E_BAD_FENCE,
         {"GPUMEM_FENCE", "\"all\"", "streams, context, own"}},
};

TEST(settings_are_named, .in = &alone, .to = ARRAY_SIZE(settings))
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *refused;

        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), GPUMEM_E_NO_REFUSAL);
        ck_assert_int_eq(setenv(settings[_i].name, settings[_i].value, 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &refused), settings[_i].result);
        for (unsigned i = 0; i < ARRAY_SIZE(settings[_i].parts) && settings[_i].parts[i]; i++)
                last_refusal_says(NULL, settings[_i].result, settings[_i].parts[i]);
}

TESTS_MAIN("served", .limit_s = 60, .start = program_start, .stop = program_stop)
