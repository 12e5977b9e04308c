/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory is registered in as few pieces as the driver takes, all of it or nothing: against a
 * table of calls that only write down what they were asked. */
#include "driver/host.h"

#include <stdbool.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

#define N_CALLS_MAX 16

/* Nothing is there: no call looks at the bytes. */
#define START ((char *)(uintptr_t)(64 * TIB))

static struct {
        char *bytes;
        size_t n_bytes; /* 0: it has been unregistered */
} ranges[N_CALLS_MAX];

static unsigned n_ranges, n_before_failure, n_unknown;

static CUresult fake_register(void *bytes, size_t n_bytes, unsigned int flags)
{
        ck_assert_uint_eq(flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        if (n_before_failure-- == 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        ck_assert_uint_lt(n_ranges, N_CALLS_MAX);
        ranges[n_ranges].bytes = bytes;
        ranges[n_ranges++].n_bytes = n_bytes;
        return CUDA_SUCCESS;
}

static CUresult fake_unregister(void *bytes)
{
        for (unsigned i = 0; i < n_ranges; i++) {
                if (ranges[i].bytes != bytes || !ranges[i].n_bytes)
                        continue;
                if (n_before_failure-- == 0)
                        return CUDA_ERROR_UNKNOWN;
                ranges[i].n_bytes = 0;
                return CUDA_SUCCESS;
        }
        n_unknown++;
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult fake_text(CUresult result, const char **ret_text)
{
        (void)result;
        *ret_text = "a fake";
        return CUDA_SUCCESS;
}

static const struct cuda fake = {
        .cuMemHostRegister = fake_register,
        .cuMemHostUnregister = fake_unregister,
        .cuGetErrorName = fake_text,
        .cuGetErrorString = fake_text,
};

static void begin(void)
{
        n_ranges = n_unknown = 0;
        n_before_failure = UINT32_MAX;
}

static uint64_t registered_bytes(void)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < n_ranges; i++)
                n_bytes += ranges[i].n_bytes;
        return n_bytes;
}

TEST(pieces_cover_the_range_and_are_few)
{
        static const uint64_t sizes[] = {2 * MIB, HOST_PIECE, HOST_PIECE + 2 * MIB,
                                         5 * HOST_PIECE / 2, 4 * HOST_PIECE};

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                char *end = START;

                begin();
                ck_assert_int_eq(host_register(&fake, START, sizes[i]), 0);
                for (unsigned n = 0; n < n_ranges; n++) {
                        ck_assert_ptr_eq(ranges[n].bytes, end);
                        ck_assert_uint_le(ranges[n].n_bytes, HOST_PIECE);
                        end += ranges[n].n_bytes;
                }
                ck_assert_uint_eq((uint64_t)(end - START), sizes[i]);
                ck_assert_uint_eq(n_ranges, (sizes[i] + HOST_PIECE - 1) / HOST_PIECE);
                ck_assert_int_eq(host_unregister(&fake, START, sizes[i]), 0);
                ck_assert_uint_eq(registered_bytes(), 0);
                ck_assert_uint_eq(n_unknown, 0);
        }
}

TEST(a_failure_leaves_nothing_registered)
{
        for (unsigned n = 0; n < 4; n++) {
                begin();
                n_before_failure = n;
                ck_assert_int_eq(host_register(&fake, START, 4 * HOST_PIECE), GPUMEM_E_DEVICE_FULL);
                ck_assert_uint_eq(n_ranges, n);
                ck_assert_uint_eq(registered_bytes(), 0);
        }
}

TEST(unregistering_goes_on_after_a_failure)
{
        begin();
        ck_assert_int_eq(host_register(&fake, START, 4 * HOST_PIECE), 0);
        n_before_failure = 1;
        ck_assert_int_eq(host_unregister(&fake, START, 4 * HOST_PIECE), -EIO);
        ck_assert_uint_eq(registered_bytes(), HOST_PIECE);
}

/* The pieces that the first try has unregistered fail the second no more. */
TEST(unregistering_can_be_tried_again)
{
        begin();
        ck_assert_int_eq(host_register(&fake, START, 4 * HOST_PIECE), 0);
        n_before_failure = 1;
        ck_assert_int_eq(host_unregister(&fake, START, 4 * HOST_PIECE), -EIO);
        ck_assert_int_eq(host_unregister(&fake, START, 4 * HOST_PIECE), 0);
        ck_assert_uint_eq(registered_bytes(), 0);
        ck_assert_uint_eq(n_unknown, 3);
}

TESTS_MAIN("pieces")
