/* SPDX-License-Identifier: Apache-2.0 */
/* Bins compared with a plain search through all blocks; slots. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/slot_set.h"
#include "tests/unit/policy/policy_world.h"

#define N_BLOCKS 200

struct shelf {
        struct bins bins;
        struct block blocks[N_BLOCKS];
        bool there[N_BLOCKS];
};

static enum bin_side side_of(unsigned i)
{
        return i % 2 ? BIN_CACHED : BIN_LEASED;
}

static struct shelf *shelf_new(void)
{
        struct shelf *shelf = calloc(1, sizeof(*shelf));

        ck_assert_ptr_nonnull(shelf);
        bins_init(&shelf->bins);
        srandom(7);
        for (unsigned i = 0; i < N_BLOCKS; i++) {
                uint64_t n_bytes = (uint64_t)(random() % 64 + 1) * 2 * MIB;

                ck_assert_int_eq(bins_ref(&shelf->bins, n_bytes, (uint32_t)random() % 2 * 4,
                                          &shelf->blocks[i].bin),
                                 0);
        }
        return shelf;
}

static void shelf_free(struct shelf *shelf)
{
        for (unsigned i = 0; i < N_BLOCKS; i++) {
                if (shelf->there[i])
                        bin_remove(shelf->blocks[i].bin, side_of(i), &shelf->blocks[i]);
        }
        for (unsigned i = 0; i < N_BLOCKS; i++)
                bin_unref(shelf->blocks[i].bin);
        for (unsigned i = 0; i < SIZE_N_CLASSES; i++)
                ck_assert(TAILQ_EMPTY(&shelf->bins.classes[i]));
        free(shelf);
}

/* Searches for the smallest size in the range, or the largest; the result 0 means none. */
enum lease_request { SMALLEST, LARGEST };
static uint64_t best_size(const struct shelf *shelf, enum bin_side side,
                          const struct bin_range *range, enum lease_request wanted)
{
        uint64_t best = 0;

        for (unsigned i = 0; i < N_BLOCKS; i++) {
                const struct bin *bin = shelf->blocks[i].bin;

                if (!shelf->there[i] || side_of(i) != side || bin->properties != range->properties)
                        continue;
                if (bin->n_bytes < range->n_least_bytes || bin->n_bytes > range->n_most_bytes)
                        continue;
                if (!best || (wanted == SMALLEST ? bin->n_bytes < best : bin->n_bytes > best))
                        best = bin->n_bytes;
        }
        return best;
}

static void compare_one(const struct shelf *shelf, enum bin_side side,
                        const struct bin_range *range)
{
        struct bin *first = bins_find(&shelf->bins, side, range);
        struct bin *last = bins_find_last(&shelf->bins, side, range);

        ck_assert_uint_eq(first ? first->n_bytes : 0, best_size(shelf, side, range, SMALLEST));
        ck_assert_uint_eq(last ? last->n_bytes : 0, best_size(shelf, side, range, LARGEST));
        ck_assert(!first || first->properties == range->properties);
        ck_assert(!last || last->properties == range->properties);
}

static void compare_all_sizes(const struct shelf *shelf)
{
        for (uint64_t n = 1; n <= 66; n++) {
                struct bin_range range = {
                        .n_least_bytes = n * 2 * MIB,
                        .n_most_bytes = random() % 2 ? bins_limit(n * 2 * MIB)
                                                     : (uint64_t)(random() % 70) * 2 * MIB,
                        .properties = (uint32_t)random() % 2 * 4,
                };

                compare_one(shelf, BIN_CACHED, &range);
                compare_one(shelf, BIN_LEASED, &range);
        }
}

TEST(smallest_and_largest_in_a_range_are_found)
{
        struct shelf *shelf = shelf_new();

        for (unsigned step = 0; step < 500; step++) {
                unsigned i = (unsigned)random() % N_BLOCKS;

                if (shelf->there[i])
                        bin_remove(shelf->blocks[i].bin, side_of(i), &shelf->blocks[i]);
                else
                        bin_put(shelf->blocks[i].bin, side_of(i), &shelf->blocks[i]);
                shelf->there[i] = !shelf->there[i];
                compare_all_sizes(shelf);
        }
        shelf_free(shelf);
}

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
