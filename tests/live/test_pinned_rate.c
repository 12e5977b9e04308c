/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory is copied as fast as the driver's own. On a GPU only: elsewhere there is nothing to time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/kernel.h"
#include "tests/suite.h"

#define N_BYTES  (256 * MIB)
#define N_COPIES 4
#define N_ROUNDS 10
#define AT_LEAST 0.9

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct daemon gpumemd;
static struct gpumem_client *client;
static struct cuda cuda;
static struct gpu *gpu;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "512MiB", "--pinned-bytes",
                                              "512MiB", NULL};
        char reason[CUDA_REASON_MAX];

        daemon_start(&gpumemd, "devices=1,bytes=1GiB", options);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void stop(void)
{
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static void *must_alloc(enum gpumem_kind kind)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = kind,
                                         .place = kind == GPUMEM_PINNED ? GPUMEM_NEAREST : 0,
                                         .stream = gpu_stream(gpu),
                                         .n_bytes = N_BYTES};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
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

static double now(void)
{
        return (double)clock_now_ns() / 1e9;
}

enum way { TO_DEVICE, TO_HOST };

/* Bytes a second. */
static double rate(enum way way, void *device, void *host)
{
        CUdeviceptr address = (uintptr_t)device;
        double began = now();

        for (unsigned i = 0; i < N_COPIES; i++) {
                if (way == TO_DEVICE)
                        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyHtoDAsync, address, host, N_BYTES,
                                                   gpu_stream(gpu)),
                                         0);
                else
                        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyDtoHAsync, host, address, N_BYTES,
                                                   gpu_stream(gpu)),
                                         0);
        }
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        return N_COPIES * (double)N_BYTES / (now() - began);
}

static double larger(double a, double b)
{
        return a > b ? a : b;
}

TEST(copies_reach_nine_tenths_of_the_rate_of_the_drivers_own, .to = 2, .can_run = kernel_is_real,
     .needs = "a GPU")
{
        void *device = must_alloc(GPUMEM_DEVICE), *ours = must_alloc(GPUMEM_PINNED);
        double own_rate = 0, drivers_rate = 0;
        void *drivers = alloc_by_the_driver();
        enum way way = _i ? TO_HOST : TO_DEVICE;

        memset(ours, 1, N_BYTES);
        memset(drivers, 2, N_BYTES);
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                own_rate = larger(own_rate, rate(way, device, ours));
                drivers_rate = larger(drivers_rate, rate(way, device, drivers));
        }
        ck_assert_int_eq(gpumem_free(client, ours, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(client, device, gpu_stream(gpu)), 0);
        (void)printf("# figure: pinned memory %s the device, %d times 256 MiB: %.1f GB/s, of "
                     "cuMemHostAlloc %.1f GB/s: %.2f\n",
                     way == TO_DEVICE ? "to" : "from", N_COPIES * N_ROUNDS, own_rate / 1e9,
                     drivers_rate / 1e9, own_rate / drivers_rate);
        (void)fflush(stdout);
        ck_assert(own_rate >= AT_LEAST * drivers_rate);
}

TEST(both_kinds_of_memory_are_copied)
{
        void *device = must_alloc(GPUMEM_DEVICE), *ours = must_alloc(GPUMEM_PINNED);

        memset(ours, 3, N_BYTES);
        ck_assert(rate(TO_DEVICE, device, ours) > 0);
        memset(ours, 4, N_BYTES);
        ck_assert(rate(TO_HOST, device, ours) > 0);
        ck_assert_uint_eq(((unsigned char *)ours)[0], 3);
        ck_assert_uint_eq(((unsigned char *)ours)[N_BYTES - 1], 3);
        ck_assert_int_eq(gpumem_free(client, ours, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(client, device, gpu_stream(gpu)), 0);
}

TESTS_MAIN("rate", .limit_s = 120, .start = start, .stop = stop)
