#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap.h"
#include "gpumem.h"
#include "tests/suite.h"

#define BASE      (UINT64_C(1) << 44)
#define UNTOUCHED UINT64_C(0x5555555555555555)

/* Owners are told apart by address only. */
static char owners[8];

static uint64_t must_alloc(struct heap *heap, uint64_t n_bytes)
{
        uint64_t address;

        ck_assert_int_eq(heap_alloc(heap, n_bytes, &address), 0);
        heap_check(heap);
        return address;
}

static struct heap_freed must_free(struct heap *heap, uint64_t address)
{
        struct heap_freed freed;

        ck_assert_int_eq(heap_free(heap, address, &freed), 0);
        heap_check(heap);
        return freed;
}

static void add_block(struct heap *heap, uint64_t start, uint64_t n_bytes, void *owner)
{
        ck_assert_int_eq(heap_add_block(heap, start, n_bytes, owner), 0);
        heap_check(heap);
}

static struct heap_stats stats_of(const struct heap *heap)
{
        struct heap_stats stats;

        heap_get_stats(heap, &stats);
        return stats;
}

/* Neither an allocation nor a byte of the output changes. */
static void refuses_free(struct heap *heap, uint64_t address)
{
        struct heap_stats before = stats_of(heap), after;
        struct heap_freed freed, untouched;

        memset(&freed, 0x55, sizeof(freed));
        memset(&untouched, 0x55, sizeof(untouched));
        ck_assert_int_eq(heap_free(heap, address, &freed), GPUMEM_E_NOT_OURS);
        ck_assert_mem_eq(&freed, &untouched, sizeof(freed));
        after = stats_of(heap);
        ck_assert_mem_eq(&before, &after, sizeof(after));
        heap_check(heap);
}

static const struct {
        uint64_t n_bytes;
        int result;
        uint64_t n_allocated_bytes;
} alloc_rows[] = {
        {0, GPUMEM_E_BAD_REQUEST, 0},
        {1, 0, 512},
        {511, 0, 512},
        {512, 0, 512},
        {513, 0, 1024},
        {1024, 0, 1024},
        {4 * MIB - 512, 0, 4 * MIB - 512},
        {4 * MIB - 511, 0, 4 * MIB},
        {4 * MIB, 0, 4 * MIB},
        {4 * MIB + 1, GPUMEM_E_REFUSED, 0},
        {TIB, GPUMEM_E_REFUSED, 0},
        {UINT64_MAX - 2 * MIB + 1, GPUMEM_E_REFUSED, 0},
        {UINT64_MAX - 2 * MIB + 2, GPUMEM_E_TOO_LARGE, 0},
        {UINT64_MAX - 512, GPUMEM_E_TOO_LARGE, 0},
        {UINT64_MAX, GPUMEM_E_TOO_LARGE, 0},
};

START_TEST(sizes_at_their_edges)
{
        struct heap heap;
        uint64_t address = UNTOUCHED;
        struct heap_stats stats;
        struct heap_freed freed;

        heap_init(&heap);
        add_block(&heap, BASE, 4 * MIB, &owners[0]);
        ck_assert_int_eq(heap_alloc(&heap, alloc_rows[_i].n_bytes, &address),
                         alloc_rows[_i].result);
        heap_check(&heap);
        stats = stats_of(&heap);
        ck_assert_uint_eq(stats.n_allocated_bytes, alloc_rows[_i].n_allocated_bytes);
        ck_assert_uint_eq(stats.n_largest_hole_bytes, 4 * MIB - alloc_rows[_i].n_allocated_bytes);
        if (alloc_rows[_i].result) {
                ck_assert_uint_eq(address, UNTOUCHED);
                ck_assert_uint_eq(stats.n_requested_bytes, 0);
        } else {
                ck_assert_uint_eq(address, BASE);
                ck_assert_uint_eq(stats.n_requested_bytes, alloc_rows[_i].n_bytes);
                freed = must_free(&heap, address);
                ck_assert_uint_eq(freed.n_requested_bytes, alloc_rows[_i].n_bytes);
                ck_assert_uint_eq(freed.n_allocated_bytes, alloc_rows[_i].n_allocated_bytes);
                ck_assert_ptr_eq(freed.emptied_owner, &owners[0]);
        }
        heap_deinit(&heap);
}
END_TEST

START_TEST(an_empty_heap_has_nothing)
{
        struct heap heap;
        struct heap_stats stats;
        uint64_t address;
        struct heap_allocation allocation;

        heap_init(&heap);
        heap_check(&heap);
        ck_assert_int_eq(heap_alloc(&heap, 1, &address), GPUMEM_E_REFUSED);
        refuses_free(&heap, 0);
        refuses_free(&heap, BASE);
        ck_assert_int_eq(heap_find(&heap, BASE, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_ptr_null(heap_next_block(&heap, NULL));
        ck_assert_ptr_null(heap_block_at(&heap, 0));
        stats = stats_of(&heap);
        ck_assert_uint_eq(stats.n_reserved_bytes + stats.n_blocks + stats.n_holes +
                                  stats.n_largest_hole_bytes,
                          0);
        heap_deinit(&heap);
}
END_TEST

START_TEST(statistics_add_up)
{
        struct heap heap;
        struct heap_stats stats;
        uint64_t first;

        heap_init(&heap);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        add_block(&heap, BASE + GIB, 4 * MIB, &owners[1]);
        first = must_alloc(&heap, 100);
        (void)must_alloc(&heap, 1000);
        (void)must_free(&heap, first);
        stats = stats_of(&heap);
        ck_assert_uint_eq(stats.n_requested_bytes, 1000);
        ck_assert_uint_eq(stats.n_allocated_bytes, 1024);
        ck_assert_uint_eq(stats.n_reserved_bytes, 6 * MIB);
        ck_assert_uint_eq(stats.n_blocks, 2);
        ck_assert_uint_eq(stats.n_holes, 3);
        ck_assert_uint_eq(stats.n_largest_hole_bytes, 4 * MIB);
        heap_deinit(&heap);
}
END_TEST

/* Five allocations in a row: freed in each order, the middle three always end as one hole. */
START_TEST(holes_merge_in_every_order)
{
        static const unsigned orders[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                             {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
        static const unsigned n_holes_after[][3] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 1},
                                                    {1, 1, 1}, {1, 2, 1}, {1, 1, 1}};
        struct heap heap;
        uint64_t addresses[5];

        heap_init(&heap);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        for (unsigned i = 0; i < 4; i++)
                addresses[i] = must_alloc(&heap, 64 * KIB);
        addresses[4] = must_alloc(&heap, 2 * MIB - 256 * KIB);
        ck_assert_uint_eq(stats_of(&heap).n_holes, 0);
        for (unsigned i = 0; i < 3; i++) {
                struct heap_freed freed = must_free(&heap, addresses[orders[_i][i]]);

                ck_assert_ptr_null(freed.emptied_owner);
                ck_assert_uint_eq(stats_of(&heap).n_holes, n_holes_after[_i][i]);
        }
        ck_assert_uint_eq(stats_of(&heap).n_largest_hole_bytes, 192 * KIB);
        ck_assert_uint_eq(must_alloc(&heap, 192 * KIB), addresses[1]);
        heap_deinit(&heap);
}
END_TEST

START_TEST(what_is_not_the_start_of_an_allocation_is_not_freed)
{
        struct heap heap;
        uint64_t first, second;

        heap_init(&heap);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        first = must_alloc(&heap, 4096);
        second = must_alloc(&heap, 4096);
        refuses_free(&heap, first + 1);
        refuses_free(&heap, first + 512);
        refuses_free(&heap, second + 4096);
        refuses_free(&heap, BASE - 512);
        refuses_free(&heap, BASE + 2 * MIB);
        refuses_free(&heap, 0);
        refuses_free(&heap, UINT64_MAX);
        (void)must_free(&heap, first);
        refuses_free(&heap, first);
        (void)must_free(&heap, second);
        refuses_free(&heap, second);
        refuses_free(&heap, first);
        heap_deinit(&heap);
}
END_TEST

START_TEST(a_block_says_when_it_is_empty_and_can_go)
{
        struct heap heap;
        struct heap_freed freed;
        uint64_t a, b, c;

        heap_init(&heap);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        add_block(&heap, BASE + 2 * MIB, 2 * MIB, &owners[1]);
        a = must_alloc(&heap, MIB);
        b = must_alloc(&heap, MIB);
        c = must_alloc(&heap, 2 * MIB);
        ck_assert_ptr_null(must_free(&heap, a).emptied_owner);
        freed = must_free(&heap, c);
        ck_assert_ptr_eq(freed.emptied_owner, &owners[1]);
        ck_assert_uint_eq(freed.block->start, BASE + 2 * MIB);
        heap_remove_block(&heap, freed.block);
        heap_check(&heap);
        refuses_free(&heap, c);
        freed = must_free(&heap, b);
        ck_assert_ptr_eq(freed.emptied_owner, &owners[0]);
        heap_remove_block(&heap, freed.block);
        heap_check(&heap);
        ck_assert_ptr_null(heap_next_block(&heap, NULL));
        ck_assert_int_eq(heap_alloc(&heap, 1, &a), GPUMEM_E_REFUSED);
        add_block(&heap, BASE, 2 * MIB, &owners[2]);
        ck_assert_uint_eq(must_alloc(&heap, 1), BASE);
        heap_deinit(&heap);
}
END_TEST

/* Each would be one hole if what touches in two blocks were merged. */
START_TEST(no_allocation_spans_two_blocks)
{
        struct heap heap;
        uint64_t address;

        heap_init(&heap);
        add_block(&heap, BASE + 2 * MIB, 2 * MIB, &owners[1]);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        ck_assert_int_eq(heap_alloc(&heap, 2 * MIB + 1, &address), GPUMEM_E_REFUSED);
        ck_assert_uint_eq(must_alloc(&heap, 2 * MIB), BASE);
        ck_assert_uint_eq(must_alloc(&heap, 2 * MIB), BASE + 2 * MIB);
        (void)must_free(&heap, BASE);
        (void)must_free(&heap, BASE + 2 * MIB);
        ck_assert_uint_eq(stats_of(&heap).n_holes, 2);
        ck_assert_int_eq(heap_alloc(&heap, 2 * MIB + 1, &address), GPUMEM_E_REFUSED);
        heap_deinit(&heap);
}
END_TEST

START_TEST(the_best_hole_is_chosen)
{
        static const uint64_t n_kib[] = {100, 8, 300, 8, 98, 8, 98, 8};
        struct heap heap;
        uint64_t addresses[ARRAY_SIZE(n_kib)];

        heap_init(&heap);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        for (unsigned i = 0; i < ARRAY_SIZE(n_kib); i++)
                addresses[i] = must_alloc(&heap, n_kib[i] * KIB);
        for (unsigned i = 0; i < ARRAY_SIZE(n_kib); i += 2)
                (void)must_free(&heap, addresses[i]);
        ck_assert_uint_eq(must_alloc(&heap, 99 * KIB), addresses[0]);
        ck_assert_uint_eq(must_alloc(&heap, 97 * KIB), addresses[4]);
        ck_assert_uint_eq(must_alloc(&heap, 98 * KIB), addresses[6]);
        ck_assert_uint_eq(must_alloc(&heap, 98 * KIB), addresses[2]);
        heap_deinit(&heap);
}
END_TEST

START_TEST(an_allocation_is_found_by_any_of_its_addresses)
{
        struct heap heap;
        struct heap_allocation allocation;
        uint64_t first, second, third;

        heap_init(&heap);
        add_block(&heap, BASE + GIB, 2 * MIB, &owners[1]);
        add_block(&heap, BASE, 2 * MIB, &owners[0]);
        first = must_alloc(&heap, 1000);
        second = must_alloc(&heap, 5000);
        third = must_alloc(&heap, 700);
        for (uint64_t offset = 0; offset < 5120; offset += 512) {
                ck_assert_int_eq(heap_find(&heap, second + offset, &allocation), 0);
                ck_assert_uint_eq(allocation.start, second);
                ck_assert_uint_eq(allocation.n_requested_bytes, 5000);
                ck_assert_uint_eq(allocation.n_allocated_bytes, 5120);
                ck_assert_ptr_eq(allocation.block->owner, &owners[0]);
        }
        ck_assert_int_eq(heap_find(&heap, second - 1, &allocation), 0);
        ck_assert_uint_eq(allocation.start, first);
        ck_assert_int_eq(heap_find(&heap, second + 5120, &allocation), 0);
        ck_assert_uint_eq(allocation.start, third);
        ck_assert_int_eq(heap_find(&heap, third + 1024, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, BASE - 1, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, BASE + 2 * MIB, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, BASE + GIB, &allocation), GPUMEM_E_NOT_OURS);
        (void)must_free(&heap, second);
        ck_assert_int_eq(heap_find(&heap, second, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, second + 1, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_uint_eq(allocation.start, third);
        heap_deinit(&heap);
}
END_TEST

START_TEST(blocks_come_in_the_order_of_adding)
{
        static const unsigned order[] = {5, 1, 7, 3, 0};
        struct heap heap;
        struct heap_block *block = NULL, *next;

        heap_init(&heap);
        for (unsigned i = 0; i < ARRAY_SIZE(order); i++)
                add_block(&heap, BASE + order[i] * GIB, 2 * MIB, &owners[order[i]]);
        for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
                block = heap_next_block(&heap, block);
                ck_assert_ptr_eq(block->owner, &owners[order[i]]);
                ck_assert_ptr_eq(heap_block_at(&heap, block->start + MIB), block);
        }
        ck_assert_ptr_null(heap_next_block(&heap, block));
        for (block = heap_next_block(&heap, NULL); block; block = next) {
                next = heap_next_block(&heap, block);
                heap_remove_block(&heap, block);
                heap_check(&heap);
        }
        ck_assert_uint_eq(stats_of(&heap).n_blocks, 0);
        heap_deinit(&heap);
}
END_TEST

static const struct {
        uint64_t n_reserved_bytes, n_bytes, n_block_bytes;
} lease_rows[] = {
        {0, 1, 2 * MIB},
        {0, 2 * MIB, 2 * MIB},
        {0, 2 * MIB + 1, 4 * MIB},
        {0, 64 * MIB, 64 * MIB},
        {0, 64 * MIB + 1, 66 * MIB},
        {0, UINT64_MAX - 2 * MIB + 1, UINT64_MAX - 2 * MIB + 1},
        {16 * MIB, 1, 2 * MIB},
        {18 * MIB, 1, 4 * MIB},
        {32 * MIB, 1, 4 * MIB},
        {32 * MIB, 5 * MIB, 6 * MIB},
        {512 * MIB, 1, 64 * MIB},
        {100 * GIB, 1, 64 * MIB},
        {100 * GIB, 65 * MIB, 66 * MIB},
        {100 * GIB, GIB, GIB},
};

START_TEST(blocks_grow_with_the_heap)
{
        struct heap heap;
        uint64_t n_block_bytes;

        heap_init(&heap);
        if (lease_rows[_i].n_reserved_bytes)
                add_block(&heap, BASE, lease_rows[_i].n_reserved_bytes, &owners[0]);
        ck_assert_int_eq(heap_block_bytes(&heap, lease_rows[_i].n_bytes, &n_block_bytes), 0);
        ck_assert_uint_eq(n_block_bytes, lease_rows[_i].n_block_bytes);
        heap_deinit(&heap);
}
END_TEST

START_TEST(no_block_is_too_large_or_for_nothing)
{
        struct heap heap;
        uint64_t n_bytes = UNTOUCHED;

        heap_init(&heap);
        ck_assert_int_eq(heap_block_bytes(&heap, UINT64_MAX, &n_bytes), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(heap_block_bytes(&heap, UINT64_MAX - 2 * MIB + 2, &n_bytes),
                         GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(heap_block_bytes(&heap, 0, &n_bytes), GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(n_bytes, UNTOUCHED);
        heap_deinit(&heap);
}
END_TEST

/* The leak checker of the sanitized build watches. */
START_TEST(deinit_frees_what_describes_live_allocations)
{
        struct heap heap;

        heap_init(&heap);
        add_block(&heap, BASE, 64 * MIB, &owners[0]);
        add_block(&heap, BASE + GIB, 64 * MIB, &owners[1]);
        for (unsigned i = 0; i < 200; i++)
                (void)must_alloc(&heap, (i + 1) * 1000);
        heap_deinit(&heap);
        heap_check(&heap);
        ck_assert_uint_eq(stats_of(&heap).n_reserved_bytes, 0);
        heap_deinit(&heap);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("heap");
        TCase *tcase = tcase_create("heap");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_loop_test(tcase, sizes_at_their_edges, 0, (int)ARRAY_SIZE(alloc_rows));
        tcase_add_test(tcase, an_empty_heap_has_nothing);
        tcase_add_test(tcase, statistics_add_up);
        tcase_add_loop_test(tcase, holes_merge_in_every_order, 0, 6);
        tcase_add_test(tcase, what_is_not_the_start_of_an_allocation_is_not_freed);
        tcase_add_test(tcase, a_block_says_when_it_is_empty_and_can_go);
        tcase_add_test(tcase, no_allocation_spans_two_blocks);
        tcase_add_test(tcase, the_best_hole_is_chosen);
        tcase_add_test(tcase, an_allocation_is_found_by_any_of_its_addresses);
        tcase_add_test(tcase, blocks_come_in_the_order_of_adding);
        tcase_add_loop_test(tcase, blocks_grow_with_the_heap, 0, (int)ARRAY_SIZE(lease_rows));
        tcase_add_test(tcase, no_block_is_too_large_or_for_nothing);
        tcase_add_test(tcase, deinit_frees_what_describes_live_allocations);
        return run_suite(suite);
}
