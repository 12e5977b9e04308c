/* SPDX-License-Identifier: Apache-2.0 */
/* Bins by size, of which tests/model/test_policy_model.c sees what is found in them; slots. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/slot_set.h"
#include "tests/unit/policy/policy_world.h"

TEST(equal_sizes_share_a_bin)
{
        struct bins *bins = calloc(1, sizeof(*bins));
        struct bin *first, *second, *other;

        ck_assert_ptr_nonnull(bins);
        bins_init(bins);
        ck_assert_int_eq(bins_ref(bins, 2 * MIB, 0, &first), 0);
        ck_assert_int_eq(bins_ref(bins, 2 * MIB, 0, &second), 0);
        ck_assert_int_eq(bins_ref(bins, 2 * MIB, 2, &other), 0);
        ck_assert_ptr_eq(first, second);
        ck_assert_ptr_ne(first, other);
        ck_assert_uint_eq(first->n_refs, 2);
        bin_unref(first);
        bin_unref(second);
        bin_unref(other);
        free(bins);
}

TEST(limit_is_an_eighth_more)
{
        ck_assert_uint_eq(bins_limit(16 * MIB), 18 * MIB);
        ck_assert_uint_eq(bins_limit(2 * MIB), 2 * MIB + 256 * KIB);
        ck_assert_uint_eq(bins_limit(UINT64_MAX - 7), UINT64_MAX);
}

TEST(lowest_free_slot_is_taken)
{
        struct slot_set slots;
        uint32_t slot;

        ck_assert_int_eq(slot_set_init(&slots, 130), 0);
        for (uint32_t i = 0; i < 130; i++) {
                ck_assert_int_eq(slot_set_take(&slots, &slot), 0);
                ck_assert_uint_eq(slot, i);
        }
        slot_set_give_back(&slots, 129);
        slot_set_give_back(&slots, 64);
        slot_set_give_back(&slots, 3);
        ck_assert(!slot_set_is_taken(&slots, 64));
        for (unsigned i = 0; i < 3; i++) {
                static const uint32_t expected[] = {3, 64, 129};

                ck_assert_int_eq(slot_set_take(&slots, &slot), 0);
                ck_assert_uint_eq(slot, expected[i]);
        }
        ck_assert_uint_eq(slots.n_taken, 130);
        slot_set_deinit(&slots);
}

TEST(none_is_left_at_the_exact_number)
{
        static const uint32_t sizes[] = {1, 63, 64, 65};

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct slot_set slots;
                uint32_t slot = 12345;

                ck_assert_int_eq(slot_set_init(&slots, sizes[i]), 0);
                for (uint32_t n = 0; n < sizes[i]; n++)
                        ck_assert_int_eq(slot_set_take(&slots, &slot), 0);
                slot = 12345;
                ck_assert_int_eq(slot_set_take(&slots, &slot), GPUMEM_E_TOO_MANY);
                ck_assert_uint_eq(slot, 12345);
                slot_set_deinit(&slots);
        }
}

TESTS_MAIN("policy: bins")
