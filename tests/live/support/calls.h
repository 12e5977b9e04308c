/* SPDX-License-Identifier: Apache-2.0 */
/* Short names for frequent calls of the library and the driver. Failures end the test. */
#pragma once

#include <check.h>
#include <stdint.h>
#include <string.h>

#include "driver/cuda.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"

/* A call of the table `cuda`. */
#define DRIVER(name, ...) ck_assert_int_eq(CUDA_CALL(&cuda, name, __VA_ARGS__), 0)

static inline void load_driver(struct cuda *cuda)
{
        char reason[CUDA_REASON_MAX];

        ck_assert_int_eq(cuda_load(NULL, cuda, reason), 0);
}

/* Makes the first device current. */
static inline struct gpu *use_gpu(void)
{
        struct gpu *gpu;

        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        return gpu;
}

static inline struct gpumem_client *connect_client(void)
{
        struct gpumem_client *connected;

        ck_assert_int_eq(gpumem_connect(NULL, &connected), 0);
        return connected;
}

/* In the nearest place. */
static inline struct gpumem_request request_in(void *stream, enum gpumem_kind kind,
                                               uint64_t n_bytes)
{
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = kind,
                                       .place = GPUMEM_NEAREST,
                                       .stream = stream,
                                       .n_bytes = n_bytes};
}

static inline struct gpumem_stats nearest_stats(struct gpumem_client *of, enum gpumem_kind kind)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(of, kind, GPUMEM_NEAREST, &stats), 0);
        return stats;
}

/* The client's last refusal, or without a client the thread's, has this code and contains this text. */
static inline void last_refusal_says(struct gpumem_client *of, int code, const char *part)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(of, &refusal), 0);
        ck_assert_int_eq(refusal.code, code);
        ck_assert_msg(strstr(refusal.text, part), "\"%s\" is not in: %s", part, refusal.text);
}
