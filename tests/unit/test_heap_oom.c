/* A heap whose bookkeeping cannot be allocated: -ENOMEM, and nothing has changed. The linker leads
 * calloc and malloc of all that is linked here through the functions below (--wrap). */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/heap.h"
#include "tests/suite.h"

#define BASE      (UINT64_C(1) << 44)
#define UNTOUCHED UINT64_C(0x5555555555555555)

void *__real_calloc(size_t n, size_t n_bytes);
void *__real_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);

/* How many calls succeed before one fails; negative: none fails. */
static int n_until_failure = -1;
static char owner;

static int is_time_to_fail(void)
{
        return n_until_failure >= 0 && n_until_failure-- == 0;
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_calloc(n, n_bytes);
}

void *__wrap_malloc(size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_malloc(n_bytes);
}

static struct heap_stats stats_of(const struct heap *heap)
{
        struct heap_stats stats;

        heap_get_stats(heap, &stats);
        return stats;
}

static void expect_unchanged(const struct heap *heap, const struct heap_stats *before)
{
        struct heap_stats after = stats_of(heap);

        heap_check(heap);
        ck_assert_mem_eq(&after, before, sizeof(after));
}

/* Block, piece, table and its buckets: each call fails in its turn. */
START_TEST(a_first_block_without_memory)
{
        struct heap heap;
        struct heap_stats before;
        int n_failures = 0, r;

        heap_init(&heap);
        before = stats_of(&heap);
        for (;;) {
                n_until_failure = n_failures;
                r = heap_add_block(&heap, BASE, 2 * MIB, &owner);
                n_until_failure = -1;
                if (r == 0)
                        break;
                ck_assert_int_eq(r, -ENOMEM);
                expect_unchanged(&heap, &before);
                n_failures++;
        }
        ck_assert_int_eq(n_failures, 4);
        heap_check(&heap);
        heap_deinit(&heap);
}
END_TEST

/* Every allocation is tried with each of its calls failing, until it succeeds: the piece always,
 * more buckets for the table now and then. */
START_TEST(allocations_without_memory)
{
        struct heap heap;
        unsigned n_expansions = 0;

        heap_init(&heap);
        ck_assert_int_eq(heap_add_block(&heap, BASE, 64 * MIB, &owner), 0);
        for (unsigned i = 0; i < 3000; i++) {
                struct heap_stats before = stats_of(&heap);
                uint64_t address = UNTOUCHED;
                int n_failures = 0, r;

                for (;;) {
                        n_until_failure = n_failures;
                        r = heap_alloc(&heap, 1 + i, &address);
                        n_until_failure = -1;
                        if (r == 0)
                                break;
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert_uint_eq(address, UNTOUCHED);
                        if (n_failures > 0)
                                expect_unchanged(&heap, &before);
                        n_failures++;
                }
                ck_assert_int_ge(n_failures, 1);
                ck_assert_int_le(n_failures, 2);
                n_expansions += n_failures == 2;
        }
        ck_assert_uint_ge(n_expansions, 3);
        heap_check(&heap);
        heap_deinit(&heap);
}
END_TEST

/* A process that is out of memory can still free and reuse: neither needs any. */
START_TEST(frees_and_exact_fits_need_no_memory)
{
        struct heap heap;
        struct heap_freed freed;
        uint64_t addresses[100], address;
        int r, n_attempts, n_refused = 0;

        heap_init(&heap);
        ck_assert_int_eq(heap_add_block(&heap, BASE, 2 * MIB, &owner), 0);
        for (unsigned i = 0; i < 100; i++)
                ck_assert_int_eq(heap_alloc(&heap, 512, &addresses[i]), 0);
        /* No ck_assert in between: it allocates. */
        n_until_failure = 0;
        n_refused += heap_free(&heap, addresses[50], &freed) != 0;
        r = heap_alloc(&heap, 512, &address);
        for (unsigned i = 0; i < 100; i++)
                n_refused += heap_free(&heap, addresses[i], &freed) != 0;
        n_attempts = n_until_failure != 0;
        n_until_failure = -1;
        ck_assert_int_eq(r, 0);
        ck_assert_uint_eq(address, addresses[50]);
        ck_assert_int_eq(n_refused, 0);
        ck_assert_int_eq(n_attempts, 0);
        ck_assert_ptr_eq(freed.emptied_owner, &owner);
        heap_check(&heap);
        heap_deinit(&heap);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("heap_oom");
        TCase *tcase = tcase_create("heap_oom");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, a_first_block_without_memory);
        tcase_add_test(tcase, allocations_without_memory);
        tcase_add_test(tcase, frees_and_exact_fits_need_no_memory);
        return run_suite(suite);
}
