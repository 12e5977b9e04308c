/* SPDX-License-Identifier: Apache-2.0 */
/* How much unused memory a client keeps: by default as much as it needed lately, with GPUMEM_CACHE_SIZE at
 * most that. gpumem_flush gives all of it back, and so does a request before it is refused. */
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

/* daemon_start sets the variable to 0, for tests that need predictable statistics. */
static void connect_with(const char *cache_size)
{
        if (cache_size)
                ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", cache_size, 1), 0);
        else
                ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        client = connect_client();
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--device-bytes", "256MiB", "--pinned-bytes", "256MiB"));
        gpu = use_gpu();
}

TEST(what_is_freed_is_had_again_without_a_message)
{
        uint64_t n_flushed, n_reserved, n_misses;
        void *pointer;

        connect_with(NULL);
        must_free(must_alloc(GPUMEM_DEVICE, 40 * MIB));
        n_reserved = device_stats().n_reserved_bytes;
        n_misses = device_stats().n_misses;
        ck_assert_uint_ge(n_reserved, 40 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), n_reserved);
        pointer = must_alloc(GPUMEM_DEVICE, 40 * MIB);
        ck_assert_uint_eq(device_stats().n_misses, n_misses);
        ck_assert_uint_eq(device_stats().n_hits, 1);
        must_free(pointer);
        ck_assert_int_eq(gpumem_flush(client, &n_flushed), 0);
        ck_assert_uint_eq(n_flushed, n_reserved);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
        daemon_await(FIGURE_leased, 0);
}

/* Blocks go whole, so less may stay than is asked for; what is in use stays. */
TEST(a_trim_keeps_so_much)
{
        uint64_t n_reserved, n_trimmed;
        void *used, *freed[4];

        connect_with(NULL);
        used = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        for (unsigned i = 0; i < 4; i++)
                freed[i] = must_alloc(GPUMEM_DEVICE, 16 * MIB);
        for (unsigned i = 0; i < 4; i++)
                must_free(freed[i]);
        n_reserved = device_stats().n_reserved_bytes;
        ck_assert_uint_ge(n_reserved, 72 * MIB);
        ck_assert_int_eq(gpumem_trim(client, n_reserved, &n_trimmed), 0);
        ck_assert_uint_eq(n_trimmed, 0);
        ck_assert_int_eq(gpumem_trim(client, n_reserved - 1, &n_trimmed), 0);
        ck_assert_uint_gt(n_trimmed, 0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, n_reserved - n_trimmed);
        ck_assert_uint_gt(device_stats().n_free_bytes, 0);
        ck_assert_int_eq(gpumem_trim(client, 24 * MIB, NULL), 0);
        ck_assert_uint_le(device_stats().n_reserved_bytes, 24 * MIB);
        ck_assert_int_eq(gpumem_trim(client, 0, NULL), 0);
        ck_assert_uint_ge(device_stats().n_reserved_bytes, 8 * MIB);
        ck_assert_uint_lt(device_stats().n_reserved_bytes, 24 * MIB);
        daemon_await(FIGURE_leased, device_stats().n_reserved_bytes);
        must_free(used);
}

/* Only what is idle, and has been so for long enough. */
TEST(a_trim_by_age_keeps_what_is_young)
{
        uint64_t n_trimmed;
        void *used;

        connect_with(NULL);
        used = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        AWAIT(device_stats().n_cached_bytes >= 128 * MIB);
        ck_assert_int_eq(gpumem_trim_idle(client, 600000, &n_trimmed), 0);
        ck_assert_uint_eq(n_trimmed, 0);
        ck_assert_int_eq(gpumem_trim_idle(client, 0, &n_trimmed), 0);
        ck_assert_uint_ge(n_trimmed, 128 * MIB);
        ck_assert_uint_eq(device_stats().n_cached_bytes, 0);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 8 * MIB);
        daemon_await(FIGURE_leased, device_stats().n_reserved_bytes);
        must_free(used);
}

TEST(a_flush_leaves_what_is_used)
{
        void *used, *freed;

        connect_with(NULL);
        used = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        freed = must_alloc(GPUMEM_DEVICE, 24 * MIB);
        must_free(freed);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_ge(device_stats().n_reserved_bytes, 8 * MIB);
        ck_assert_uint_lt(device_stats().n_reserved_bytes, 32 * MIB);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 8 * MIB);
        must_free(used);
}

TEST(a_cache_has_a_size_and_may_be_none, .to = 2)
{
        connect_with(_i ? "0" : "16MiB");
        must_free(must_alloc(GPUMEM_DEVICE, 64 * MIB));
        ck_assert_uint_le(device_stats().n_reserved_bytes, _i ? 0 : 16 * MIB);
        ck_assert_uint_eq(device_stats().n_reserved_bytes == 0, _i);
        daemon_await(FIGURE_leased, device_stats().n_reserved_bytes);
}

/* Of one size, whichever stream frees. */
TEST(streams_share_the_size)
{
        const uint64_t n_bytes = 16 * MIB, n_cache_bytes = 40 * MIB;
        struct gpu *gpus[2] = {gpu, use_gpu()};
        void *pointers[8];

        connect_with("40MiB");
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++) {
                        gpu = gpus[i % 2];
                        pointers[i] = must_alloc(GPUMEM_DEVICE, n_bytes);
                }
                for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++) {
                        gpu = gpus[i % 2];
                        must_free(pointers[i]);
                        ck_assert_uint_le(device_stats().n_reserved_bytes,
                                          device_stats().n_allocated_bytes + n_cache_bytes);
                }
                ck_assert_uint_gt(device_stats().n_reserved_bytes, 0);
        }
        gpu_free(gpus[1]);
        gpu = gpus[0];
        ck_assert_int_eq(gpu_use(gpu), 0);
}

/* What exceeds a new size goes back at once, what is allocated stays; without a size blocks are idle again. */
TEST(a_cache_gets_a_size_while_memory_is_held)
{
        void *used;

        connect_with(NULL);
        used = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        ck_assert_uint_ge(device_stats().n_reserved_bytes, 136 * MIB);
        ck_assert_int_eq(gpumem_set_cache_size(client, 16 * MIB), 0);
        ck_assert_uint_le(device_stats().n_reserved_bytes, 24 * MIB);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 8 * MIB);
        ck_assert_uint_eq(device_stats().n_cache_limit_bytes, 16 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        ck_assert_uint_le(device_stats().n_reserved_bytes, 24 * MIB);
        ck_assert_int_eq(gpumem_set_cache_size(client, GPUMEM_NO_LIMIT), 0);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        AWAIT(device_stats().n_cached_bytes >= 128 * MIB);
        must_free(used);
}

/* What was idle is the process's own as far as the size allows, so that others take none of it; the rest goes back. */
TEST(a_size_calls_back_what_is_idle)
{
        uint64_t n_reserved_bytes;

        connect_with(NULL);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        n_reserved_bytes = device_stats().n_reserved_bytes;
        AWAIT(device_stats().n_cached_bytes == n_reserved_bytes);
        ck_assert_int_eq(gpumem_set_cache_size(client, GIB), 0);
        ck_assert_uint_eq(device_stats().n_cached_bytes, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_idle), 0);
        n_reserved_bytes = device_stats().n_reserved_bytes;
        ck_assert_uint_gt(n_reserved_bytes, 0);
        ck_assert_uint_eq(device_stats().n_inactive_split_bytes, n_reserved_bytes);
        ck_assert_int_eq(gpumem_set_cache_size(client, GPUMEM_NO_LIMIT), 0);
        AWAIT(device_stats().n_cached_bytes == n_reserved_bytes);
        ck_assert_int_eq(gpumem_set_cache_size(client, 32 * MIB), 0);
        ck_assert_uint_le(device_stats().n_reserved_bytes, 32 * MIB);
        ck_assert_uint_eq(device_stats().n_cached_bytes, 0);
        daemon_await(FIGURE_leased, device_stats().n_reserved_bytes);
}

TEST(what_is_kept_is_given_up_before_a_refusal)
{
        connect_with(NULL);
        must_free(must_alloc(GPUMEM_DEVICE, 100 * MIB));
        must_free(must_alloc(GPUMEM_DEVICE, 150 * MIB));
        must_free(must_alloc(GPUMEM_DEVICE, 240 * MIB));
}

/* Blocks of another stream are given up, too, although no call has asked how far that stream has come. */
TEST(what_another_stream_keeps_is_given_up_before_a_refusal)
{
        struct gpumem_request request = request_in(NULL, GPUMEM_DEVICE, 0);
        void *pointer;

        connect_with(NULL);
        must_free(must_alloc(GPUMEM_DEVICE, 150 * MIB));
        ck_assert_uint_ge(device_stats().n_reserved_bytes, 150 * MIB);
        for (unsigned i = 0; i < 3; i++) {
                request.n_bytes = (200 + 20 * i) * MIB;
                ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
                ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
                must_free(must_alloc(GPUMEM_DEVICE, request.n_bytes));
        }
}

/* A stream for each task: memory of an ended stream goes to the next one, except for a few blocks on their
 * way to the idle list. Memory that another stream frees waits for that stream; then any stream may get it. */
TEST(streams_that_have_ended_keep_nothing, .to = 2)
{
        const uint64_t n_bytes = 16 * MIB;
        struct gpu *first = gpu;
        void *pointer;

        connect_with(NULL);
        for (unsigned i = 0; i < 48; i++) {
                gpu = use_gpu();
                pointer = must_alloc(GPUMEM_DEVICE, n_bytes);
                ck_assert_int_eq(gpu_fill(gpu, pointer, 1, n_bytes), 0);
                if (!_i)
                        must_free(pointer);
                ck_assert_int_eq(gpu_synchronize(gpu), 0);
                gpu_free(gpu);
                gpu = first;
                ck_assert_int_eq(gpu_use(gpu), 0);
                if (_i && i % 2)
                        must_free(pointer);
                else if (_i)
                        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        }
        ck_assert_uint_le(device_stats().n_reserved_peak_bytes, (_i ? 3 : 8) * n_bytes);
}

static uint64_t n_pinned_reserved(void)
{
        return nearest_stats(client, GPUMEM_PINNED).n_reserved_bytes;
}

/* Unregistering waits for every running kernel, so a request that needs another block does not unregister.
 * It is done only with a limit of the cache, or on gpumem_flush. */
TEST(registered_memory_stays_until_it_is_asked_for)
{
        static const uint64_t sizes[] = {20 * MIB, 30 * MIB, 45 * MIB};
        uint64_t n_bytes = 0;

        connect_with(NULL);
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                n_bytes += sizes[i];
                must_free(must_alloc(GPUMEM_PINNED, sizes[i]));
                ck_assert_uint_ge(n_pinned_reserved(), n_bytes);
        }
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(n_pinned_reserved(), 0);
}

/* Several adjacent blocks are one range for an allocation, but not for a process's first one. */
TEST(an_allocation_may_lie_in_several_blocks)
{
        const uint64_t n_bytes = 30 * MIB;
        unsigned char *pointer, *staged;
        struct gpumem_info first = {.struct_size = sizeof(first)}, last = first;
        void *other;

        connect_with(NULL);
        other = must_alloc(GPUMEM_DEVICE, 2 * MIB);
        pointer = must_alloc(GPUMEM_DEVICE, n_bytes);
        ck_assert_int_eq(gpumem_describe(client, pointer, &first), 0);
        ck_assert_int_eq(gpumem_describe(client, pointer + n_bytes - 1, &last), 0);
        ck_assert_uint_ne(first.block, last.block);
        ck_assert_ptr_eq(last.base, pointer);
        ck_assert_uint_eq(last.n_requested_bytes, n_bytes);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 0x5a, n_bytes), 0);
        for (uint64_t at = 0; at < n_bytes; at += 64 * KIB) {
                ck_assert_int_eq(gpu_stage(gpu, 64 * KIB, (void **)&staged), 0);
                memset(staged, 0, 64 * KIB);
                ck_assert_int_eq(gpu_copy_to_host(gpu, staged, pointer + at, 64 * KIB), 0);
                ck_assert_int_eq(gpu_synchronize(gpu), 0);
                ck_assert_uint_eq(staged[0], 0x5a);
                ck_assert_int_eq(memcmp(staged, staged + 1, 64 * KIB - 1), 0);
        }
        must_free(pointer);
        must_free(other);
}

TESTS_MAIN("cache", .limit_s = 60, .start = start, .stop = solo_stop)
