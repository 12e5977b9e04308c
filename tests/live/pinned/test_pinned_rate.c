/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of pinned memory are as fast as with the driver's own. Only on a GPU: the emulated driver's times
 * mean nothing. */
#include <dlfcn.h>

#include "base/clock.h"
#include "driver/cuda.h"
#include "tests/live/support/kernel.h"
#include "tests/live/worlds/solo.h"

#define N_BYTES  (256 * MIB)
#define N_COPIES 4
#define N_ROUNDS 10
#define AT_LEAST 0.9

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct cuda cuda;

static void start(void)
{
        solo_start("devices=1,bytes=1GiB",
                   OPTIONS("--device-bytes", "512MiB", "--pinned-bytes", "512MiB"));
        load_driver(&cuda);
}

static void stop(void)
{
        solo_close();
        gpumemd_stop_uncharged();
}

static void *alloc_by_the_driver(void)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW), *bytes;
        __typeof__(cuMemHostAlloc) *call;

        ck_assert_ptr_nonnull(library);
        call = (__typeof__(call))dlsym(library, NAME_OF(cuMemHostAlloc));
        ck_assert_ptr_nonnull((void *)call);
        ck_assert_int_eq(call(&bytes, N_BYTES, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
        return bytes;
}

enum way { TO_DEVICE, TO_HOST };

/* Bytes a second. */
static double rate(enum way way, void *device, void *host)
{
        CUdeviceptr address = (uintptr_t)device;
        uint64_t began_ns = clock_now_ns();

        for (unsigned i = 0; i < N_COPIES; i++) {
                if (way == TO_DEVICE)
                        DRIVER(cuMemcpyHtoDAsync, address, host, N_BYTES, gpu_stream(gpu));
                else
                        DRIVER(cuMemcpyDtoHAsync, host, address, N_BYTES, gpu_stream(gpu));
        }
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        return N_COPIES * (double)N_BYTES / ((double)(clock_now_ns() - began_ns) / 1e9);
}

static double larger(double a, double b)
{
        return a > b ? a : b;
}

TEST(copies_reach_nine_tenths_of_the_rate_of_the_drivers_own, .to = 2, .can_run = kernel_is_real,
     .needs = "a GPU")
{
        void *device = must_alloc(GPUMEM_DEVICE, N_BYTES),
             *ours = must_alloc(GPUMEM_PINNED, N_BYTES);
        double own_rate = 0, drivers_rate = 0;
        void *drivers = alloc_by_the_driver();
        enum way way = _i ? TO_HOST : TO_DEVICE;

        memset(ours, 1, N_BYTES);
        memset(drivers, 2, N_BYTES);
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                own_rate = larger(own_rate, rate(way, device, ours));
                drivers_rate = larger(drivers_rate, rate(way, device, drivers));
        }
        must_free(ours);
        must_free(device);
        (void)printf("# figure: pinned memory %s the device, %d times 256 MiB: %.1f GB/s, of "
                     "cuMemHostAlloc %.1f GB/s: %.2f\n",
                     way == TO_DEVICE ? "to" : "from", N_COPIES * N_ROUNDS, own_rate / 1e9,
                     drivers_rate / 1e9, own_rate / drivers_rate);
        (void)fflush(stdout);
        ck_assert(own_rate >= AT_LEAST * drivers_rate);
}

TEST(both_kinds_of_memory_are_copied)
{
        void *device = must_alloc(GPUMEM_DEVICE, N_BYTES),
             *ours = must_alloc(GPUMEM_PINNED, N_BYTES);

        memset(ours, 3, N_BYTES);
        ck_assert(rate(TO_DEVICE, device, ours) > 0);
        memset(ours, 4, N_BYTES);
        ck_assert(rate(TO_HOST, device, ours) > 0);
        ck_assert_uint_eq(((unsigned char *)ours)[0], 3);
        ck_assert_uint_eq(((unsigned char *)ours)[N_BYTES - 1], 3);
        must_free(ours);
        must_free(device);
}

TESTS_MAIN("rate", .limit_s = 120, .start = start, .stop = stop)
