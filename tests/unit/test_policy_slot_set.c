#include "base/err.h"
#include "daemon/policy/state/slot_set.h"
#include "tests/unit/policy_world.h"

START_TEST(lowest_free_slot_is_taken)
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
END_TEST

START_TEST(none_is_left_at_the_exact_number)
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
END_TEST

int main(void)
{
        const TTest *tests[] = {lowest_free_slot_is_taken, none_is_left_at_the_exact_number};

        return run_tests("slots", tests, ARRAY_SIZE(tests));
}
