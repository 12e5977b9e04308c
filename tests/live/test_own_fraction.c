/* SPDX-License-Identifier: Apache-2.0 */
/* What a process limits itself to: by GPUMEM_MEMORY_FRACTION and gpumem_set_limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/limits_world.h"
#include "tests/suite.h"

static int alloc_on(const struct gpu *gpu, struct gpumem_client *client, int32_t device,
                    uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .place = device,
                                         .stream = gpu_stream(gpu),
                                         .n_bytes = n_bytes};

        return gpumem_alloc(client, &request, ret_pointer);
}

TEST(a_process_limits_itself)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *client;
        void *first, *second;
        struct gpu *gpu;
        char fraction[32];

        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        n_own_fds = own_fds();
        (void)snprintf(fraction, sizeof(fraction), "%.12f", fraction_of(8 * MIB));
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", fraction, 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 6 * MIB, &first), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), GPUMEM_E_LIMIT);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "this client's own limit: 6.00 MiB of "));
        ck_assert_ptr_nonnull(strstr(refusal.text, " device memory reserved; 4.00 MiB asked"));
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 10 * MIB), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, 0), 0);
        ck_assert_int_eq(gpumem_free(client, second, gpu_stream(gpu)), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), GPUMEM_E_LIMIT);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, GPUMEM_NO_LIMIT), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 9, 1), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_set_limit(client, 9, 0, 1), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 1),
                         GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_free(client, first, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(client, second, gpu_stream(gpu)), 0);
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpu_free(gpu);
        n_own_fds = own_fds();
}

TEST(a_bad_fraction_is_an_error)
{
        static const char *const wrong[] = {"0", "1.01", "half", "-0.5",
                                            ".", "0.5x", "1e-1", "nan"};
        struct gpumem_client *client;

        /* The driver stays loaded, with the fds that it has. */
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        gpumem_disconnect(client);
        n_own_fds = own_fds();
        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
                ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", wrong[i], 1), 0);
                ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_BAD_FRACTION);
        }
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", "1.0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        gpumem_disconnect(client);
}

TESTS_MAIN("own_fraction", .limit_s = 60, .start = limits_start, .stop = limits_stop)
