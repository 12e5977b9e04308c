/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the nth of the daemon's calls of NVML fail, or hang, for each n of a start and of a look at a device: the
 * daemon serves all the same, or says what NVML has said of the device, and when NVML answers again all is well.
 * GPUMEM_TEST_FAULTS=all: all of them; else some, by GPUMEM_TEST_SEED. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/messages.h"
#include "tests/demo/gpu.h"
#include "tests/live/support/daemon.h"
#include "tests/random.h"
#include "tests/suite.h"

#define PIECE     (8 * MIB)
#define N_SAMPLES 6

/* Library, device, set of events and its device; and what a look asks, twice. */
#define N_START_CALLS 4
#define N_LOOK_CALLS  8
#define N_CALLS       (N_START_CALLS + 2 * N_LOOK_CALLS)

/* nvmlReturn_t: not supported, no permission, time-out, lost, needs a reset, unknown; 0 is a call that hangs. */
static const unsigned results[] = {3, 4, 10, 15, 16, 999, 0};

static struct gpu *gpu;
static struct gpumem_client *client;

static int alloc(void)
{
        const struct gpumem_request request = {
                .struct_size = sizeof(request), .kind = GPUMEM_DEVICE, .n_bytes = PIECE};
        void *pointer;
        int r = gpumem_alloc(client, &request, &pointer);

        if (!r)
                r = gpumem_free_sync(client, pointer);
        return r;
}

static void arm(unsigned nth, unsigned result)
{
        char lines[64];

        (void)snprintf(lines, sizeof(lines), "nth=0:%u\n%s=0:%u\n", nth, result ? "result" : "hang",
                       result ? result : 1);
        daemon_nvml(&gpumemd, lines);
}

/* Refused, since the driver is full, or NVML says that the device is in error; each asks NVML again. */
static void press(void)
{
        daemon_free_all();
        daemon_fault(&gpumemd, gpumemd.pid, "fail=cuMemCreate:*:2");
        for (unsigned i = 0; i < 2; i++) {
                int r = alloc();

                ck_assert_msg(r == GPUMEM_E_DEVICE_FULL || r == GPUMEM_E_DRIVER, "%d", r);
        }
        daemon_fault(&gpumemd, gpumemd.pid, "");
}

static void recover(void)
{
        daemon_nvml(&gpumemd, "");
        daemon_await_first(FIGURE_driver, PROTO_DRIVER_ANSWERS, PROTO_DRIVER_ANSWERS);
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
        ck_assert_int_eq(alloc(), 0);
}

/* Without its device, or at all, NVML is not asked again. */
static void restart(unsigned nth, unsigned result)
{
        const char *const options[] = {"--canary", "off", NULL};

        gpumem_disconnect(client);
        daemon_kill(&gpumemd);
        arm(nth, result);
        daemon_restart(&gpumemd, NULL, options);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        press();
        daemon_nvml(&gpumemd, "");
        daemon_await_first(FIGURE_driver, PROTO_DRIVER_ANSWERS, PROTO_DRIVER_ANSWERS);
        ck_assert_int_eq(alloc(), 0);
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB,reclaim_ms=0", NULL);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void look(unsigned nth, unsigned result)
{
        arm(nth, result);
        press();
        recover();
}

/* Returns how many there were of them. */
static unsigned sweep(struct test_random *random, unsigned n_calls, unsigned n_samples,
                      void (*try)(unsigned nth, unsigned result))
{
        const char *which = getenv("GPUMEM_TEST_FAULTS");
        unsigned n = n_calls * (unsigned)ARRAY_SIZE(results);
        bool is_all = which && strcmp(which, "all") == 0;
        unsigned n_tried = is_all ? n : n_samples;

        for (unsigned i = 0; i < n_tried; i++) {
                unsigned number = is_all ? i : (unsigned)test_random_below(random, n);

                try(1 + number / (unsigned)ARRAY_SIZE(results),
                    results[number % ARRAY_SIZE(results)]);
        }
        return n_tried;
}

TEST(whatever_nvml_says_the_daemon_serves)
{
        struct test_random random = test_random_begin();
        unsigned n;

        start();
        n = sweep(&random, 2 * N_LOOK_CALLS, N_SAMPLES, look);
        n += sweep(&random, N_START_CALLS, 1, restart);
        (void)printf("# nvml, daemon: %u of %zu faults\n", n, N_CALLS * ARRAY_SIZE(results));
        (void)fflush(stdout);
        gpumem_disconnect(client);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

TESTS_MAIN("nvml_faults", .limit_s = UNLIMITED, .can_run = machine_is_emulated,
           .needs = "faults of the emulated NVML")
