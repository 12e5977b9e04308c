/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory as programs use it: with and without CUDA, registered at once or later, of memfds or of the
 * driver. After each test nothing is charged or reserved, and both sides have as many fds open as before. */
#include <sys/syscall.h>
#include <linux/mempolicy.h>

#include "driver/cuda.h"
#include "tests/live/pinned/huge.h"
#include "tests/live/worlds/program.h"

static struct cuda cuda;
static void *stream; /* that pinned memory is asked for in */

static unsigned char *alloc_from(struct gpumem_client *from, uint64_t n_bytes)
{
        struct gpumem_request request = request_in(stream, GPUMEM_PINNED, n_bytes);
        void *pointer;
        int r = gpumem_alloc(from, &request, &pointer);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

/* The CPU's bytes go to the device and come back to another place of the same memory. */
static void check_reached_by(unsigned device, unsigned char *bytes, uint64_t n_bytes)
{
        uint64_t n_half = n_bytes / 2;
        void *there = alloc_on(device, n_half, 0);

        for (uint64_t i = 0; i < n_half; i++)
                bytes[i] = (unsigned char)(i * 7 + device);
        memset(bytes + n_half, 0, n_half);
        ck_assert_int_eq(gpu_copy_to_device(gpus[device], there, bytes, n_half), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], bytes + n_half, there, n_half), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        ck_assert_int_eq(memcmp(bytes, bytes + n_half, n_half), 0);
        free_on(device, there);
}

static void check_reached_by_all(unsigned char *bytes, uint64_t n_bytes)
{
        for (unsigned device = 0; device < n_gpus; device++)
                check_reached_by(device, bytes, n_bytes);
}

static void start_with(const char *emulator, const char *backing)
{
        program_start_with(emulator, OPTIONS("--pinned-bytes", "512MiB", "--device-bytes", "256MiB",
                                             "--pinned-backing", backing));
        load_driver(&cuda);
}

static void start(void)
{
        start_with("devices=2,bytes=256MiB", "memfd");
}

static void start_slow(void)
{
        start_with("devices=2,bytes=256MiB,copy_delay_us=20000", "memfd");
}

static void start_on_vmm(void)
{
        start_with("devices=2,bytes=256MiB", "vmm");
}

#define BEGUN_BY(start_) .limit_s = 60, .start = (start_), .stop = program_stop

static const struct test_case huge_case = {"huge", BEGUN_BY(start)};
static const struct test_case vmm_case = {"vmm", BEGUN_BY(start_on_vmm)};
static const struct test_case slow = {"slow", BEGUN_BY(start_slow)};

static struct gpumem_client *connect_without_cuda(void)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .cuda_library = "/nonexistent.so"};
        struct gpumem_client *without;

        ck_assert_int_eq(gpumem_connect(&options, &without), 0);
        return without;
}

static bool is_registered(const void *pointer)
{
        unsigned type = 0;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        return cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          (CUdeviceptr)(uintptr_t)pointer) == CUDA_SUCCESS &&
               type == CU_MEMORYTYPE_HOST;
}

/* Large enough that several threads fault it in. */
TEST(a_program_without_cuda_has_pinned_memory)
{
        struct gpumem_client *without = connect_without_cuda();
        struct gpumem_request request = request_in(stream, GPUMEM_PINNED, 4096);
        unsigned char *small = alloc_from(without, 4096), *large = alloc_from(without, 200 * MIB);
        void *pointer;

        memset(small, 1, 4096);
        for (uint64_t i = 0; i < 200 * MIB; i += 4096) {
                ck_assert_uint_eq(large[i], 0);
                large[i] = 2;
        }
        ck_assert_int_eq(gpumem_register(without, small), GPUMEM_E_NO_DRIVER);
        request.stream = &request;
        ck_assert_int_eq(gpumem_alloc(without, &request, &pointer), GPUMEM_E_NO_DRIVER);
        request.kind = GPUMEM_DEVICE;
        ck_assert_int_eq(gpumem_alloc(without, &request, &pointer), GPUMEM_E_NO_DRIVER);
        ck_assert_int_eq(gpumem_free(without, small, NULL), 0);
        ck_assert_int_eq(gpumem_free_sync(without, large), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 202 * MIB);
        gpumem_disconnect(without);
}

/* Where the system tells. */
TEST(pages_are_on_the_pools_node)
{
        struct gpumem_client *without = connect_without_cuda();
        unsigned char *bytes = alloc_from(without, 2 * MIB);
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int node = -1;

        bytes[0] = 1;
        if (syscall(SYS_get_mempolicy, &node, NULL, 0, bytes, MPOL_F_NODE | MPOL_F_ADDR) == 0) {
                ck_assert_int_eq(gpumem_get_stats(without, GPUMEM_PINNED, node, &stats), 0);
                ck_assert_uint_eq(stats.n_reserved_bytes, 2 * MIB);
        }
        ck_assert_int_eq(gpumem_get_stats(without, GPUMEM_PINNED, 12345, &stats), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_free(without, bytes, NULL), 0);
        gpumem_disconnect(without);
}

TEST(memory_is_registered_with_a_context)
{
        unsigned char *bytes;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        bytes = alloc_from(client, 100000);
        ck_assert(is_registered(bytes));
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        check_reached_by_all(bytes, 100000);
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        ck_assert(!is_registered(bytes));
}

TEST(memory_is_registered_later)
{
        unsigned char *bytes, *other;

        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        bytes = alloc_from(client, 100000);
        other = alloc_from(client, 4096);
        ck_assert_int_eq(gpumem_register(client, bytes), GPUMEM_E_NO_CONTEXT);
        ck_assert(!is_registered(bytes));
        ck_assert_int_eq(gpumem_register(client, bytes + 512), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        ck_assert(is_registered(bytes) && is_registered(other));
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        ck_assert_int_eq(gpumem_register(client, other), 0);
        check_reached_by_all(bytes, 100000);
        ck_assert_int_eq(gpumem_free(client, bytes, gpu_stream(gpus[n_gpus - 1])), 0);
        ck_assert(is_registered(other));
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_free(client, other, NULL), 0);
        ck_assert(!is_registered(other));
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
}

/* Of memory with a block of its own, here and where it is attached. */
TEST(shared_memory_is_registered_later)
{
        struct gpumem_client *other;
        struct gpumem_request request = request_in(stream, GPUMEM_PINNED, 100000);
        struct gpumem_token token;
        void *bytes, *attached;
        uint64_t n_bytes;

        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        other = connect_client();
        request.flags |= GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &bytes), 0);
        ck_assert_int_eq(gpumem_share(client, bytes, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(other, &token, &attached, &n_bytes), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpumem_register(client, attached), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        ck_assert_int_eq(gpumem_register(other, attached), 0);
        check_reached_by(0, attached, 100000);
        ck_assert_int_eq(memcmp(bytes, attached, 100000), 0);
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_detach(other, attached, NULL), 0);
        ck_assert(!is_registered(attached) && is_registered(bytes));
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        ck_assert(!is_registered(bytes));
        gpumem_disconnect(other);
}

TEST(device_memory_is_not_registered)
{
        void *there = alloc_on(0, 4096, 0);

        ck_assert_int_eq(gpumem_register(client, there), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpumem_register(client, &there), GPUMEM_E_NOT_OURS);
        free_on(0, there);
}

/* A thread without a context may be the one that empties a registered block. */
TEST(memory_is_given_back_without_a_context)
{
        unsigned char *bytes;

        ck_assert_int_eq(gpu_use(gpus[n_gpus - 1]), 0);
        bytes = alloc_from(client, 4096);
        ck_assert(is_registered(bytes));
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        ck_assert(!is_registered(bytes));
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
}

static bool says_registered(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.is_registered;
}

/* The next context of the device has the same handle, as after cudaDeviceReset. */
TEST(a_context_takes_its_registrations_with_it, NEEDS_EMULATOR)
{
        unsigned last = n_gpus - 1;
        unsigned char *bytes, *kept;

        ck_assert_int_eq(gpu_use(gpus[last]), 0);
        bytes = alloc_from(client, 40 * MIB);
        kept = alloc_from(client, 4096);
        ck_assert(says_registered(kept));
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        gpus[last] = gpu_free(gpus[last]);
        ck_assert_int_eq(gpu_new((int)last, &gpus[last]), 0);
        ck_assert(!says_registered(kept));
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_lt(daemon_figure(FIGURE_charged), 40 * MIB);
        ck_assert_int_eq(gpumem_register(client, kept), 0);
        ck_assert(says_registered(kept) && is_registered(kept));
        ck_assert_int_eq(gpumem_free_sync(client, kept), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
}

static uint64_t block_of(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.block;
}

static void renew_context(unsigned device)
{
        gpus[device] = gpu_free(gpus[device]);
        ck_assert_int_eq(gpu_new((int)device, &gpus[device]), 0);
}

/* Has a block that is empty, stays mapped, and is registered in the context of the device. The next allocation of
 * as much gets it, in whichever stream. Returns its number. */
static uint64_t have_kept_block(unsigned device)
{
        unsigned char *bytes;
        uint64_t block;

        ck_assert_int_eq(gpumem_set_cache_size(client, 40 * MIB), 0);
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        bytes = alloc_from(client, 40 * MIB);
        block = block_of(bytes);
        ck_assert_int_eq(gpumem_free(client, bytes, NULL), 0);
        return block;
}

static void check_registered_in(unsigned device, uint64_t block)
{
        unsigned char *bytes;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        bytes = alloc_from(client, 40 * MIB);
        ck_assert_uint_eq(block_of(bytes), block);
        ck_assert(is_registered(bytes) && says_registered(bytes));
        check_reached_by_all(bytes, 40 * MIB);
        ck_assert_int_eq(gpumem_free(client, bytes, NULL), 0);
}

/* As after cudaDeviceReset: the next context has the same handle. */
TEST(a_block_that_outlives_its_context_is_registered_in_the_next, NEEDS_EMULATOR)
{
        uint64_t block = have_kept_block(0);

        renew_context(0);
        check_registered_in(0, block);
        renew_context(0);
        check_registered_in(n_gpus - 1, block);
}

/* The block is another stream's by then, whose context has not ended. */
TEST(a_block_is_registered_again_where_an_earlier_users_context_ends, NEEDS_EMULATOR)
{
        uint64_t block = have_kept_block(0);

        check_registered_in(n_gpus - 1, block);
        renew_context(0);
        check_registered_in(n_gpus - 1, block);
}

TEST(an_allocation_whose_block_is_not_registered_again_fails, NEEDS_EMULATOR)
{
        uint64_t block = have_kept_block(0);
        void *pointer = &block;
        struct gpumem_request request = request_in(NULL, GPUMEM_PINNED, 40 * MIB);

        renew_context(0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        daemon_fault(&gpumemd, getpid(), "fail=cuMemHostRegister:*:999");
        ck_assert_int_lt(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_ptr_eq(pointer, &block);
        ck_assert_uint_eq(stats_of(GPUMEM_PINNED, GPUMEM_NEAREST).n_allocated_bytes, 0);
        daemon_fault(&gpumemd, getpid(), "");
        check_registered_in(0, block);
}

static void lose_context(void)
{
        stream = NULL;
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
}

static void have_context(void)
{
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        stream = gpu_stream(gpus[0]);
}

/* A copy out of memory that was registered, at once or later, is on its way when it is freed, without a
 * context or with one: what the CPU writes there next must not come before the copy. */
static void check_had_again_after_copy(void (*before)(void), void (*free_it)(unsigned char *bytes))
{
        unsigned char *keeper, *bytes, *again;
        void *there = alloc_on(0, 64 * KIB, 0);

        before();
        keeper = alloc_from(client, 64 * KIB);
        bytes = alloc_from(client, 64 * KIB);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        memset(bytes, 1, 64 * KIB);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], there, bytes, 64 * KIB), 0);
        free_it(bytes);
        before();
        again = alloc_from(client, 64 * KIB);
        ck_assert_ptr_eq(again, bytes);
        memset(again, 2, 64 * KIB);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpus[0], keeper, there, 64 * KIB), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        for (uint64_t i = 0; i < 64 * KIB; i++)
                ck_assert_uint_eq(keeper[i], 1);
        ck_assert_int_eq(gpumem_free_sync(client, again), 0);
        ck_assert_int_eq(gpumem_free_sync(client, keeper), 0);
        free_on(0, there);
}

static void free_in_stream(unsigned char *bytes)
{
        free_on(0, bytes);
}

static void free_without_context(unsigned char *bytes)
{
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_free(client, bytes, NULL), 0);
}

static void free_synchronized(unsigned char *bytes)
{
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
}

TEST(memory_registered_later_is_had_again_after_its_copies, .in = &slow, NEEDS_EMULATOR)
{
        check_had_again_after_copy(lose_context, free_in_stream);
        check_had_again_after_copy(lose_context, free_without_context);
        check_had_again_after_copy(lose_context, free_synchronized);
}

TEST(memory_registered_at_once_is_had_again_after_its_copies, .in = &slow, NEEDS_EMULATOR)
{
        check_had_again_after_copy(have_context, free_in_stream);
        check_had_again_after_copy(have_context, free_synchronized);
}

TEST(the_drivers_memory_is_the_cpus_and_every_devices, .in = &vmm_case)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        unsigned char *bytes;

        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        bytes = alloc_from(client, 5 * MIB);
        ck_assert(is_registered(bytes));
        ck_assert_int_eq(gpumem_describe(client, bytes, &info), 0);
        ck_assert_uint_eq(info.is_registered, 1);
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_register(client, bytes), 0);
        check_reached_by_all(bytes, 5 * MIB);
        ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
}

TEST(a_program_without_cuda_is_refused_the_drivers_memory, .in = &vmm_case)
{
        struct gpumem_client *without = connect_without_cuda();
        struct gpumem_request request = request_in(stream, GPUMEM_PINNED, 4096);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(without, &request, &pointer), GPUMEM_E_UNSUPPORTED);
        last_refusal_says(without, GPUMEM_E_UNSUPPORTED, "--pinned-backing memfd");
        gpumem_disconnect(without);
        daemon_await(FIGURE_charged, 0);
}

TEST(huge_pages_are_reached, .in = &huge_case, .can_run = huge_pages_tried, .needs = "huge pages")
{
        for (unsigned i = 0; i < 2; i++) {
                unsigned char *bytes;

                ck_assert_int_eq(gpu_use(gpus[0]), 0);
                bytes = alloc_from(client, 3 * MIB);
                check_reached_by_all(bytes, 3 * MIB);
                ck_assert_int_eq(gpumem_free_sync(client, bytes), 0);
        }
}

TESTS_MAIN("memfd", .limit_s = 60, .start = start, .stop = program_stop)
