/* SPDX-License-Identifier: Apache-2.0 */
/* How C tests begin and end. `TEST(name) { ... }` is a test; TESTS_MAIN(name) at the program's end runs all of
 * them in the order of the file, prints TAP, and makes an exit status of it. What a test or the program wants besides
 * follows its name: TEST(name, .to = 3, NEEDS_ROOT). Few programs have a main that makes Check's cases itself. */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* What tests have in common. */
struct test_case {
        const char *name;
        int limit_s; /* of each test; 0 is Check's, UNLIMITED leaves it to the build system */
        SFun start, stop;
        bool (*can_run)(void); /* of the program's case: where it says no, all is left out */
        const char *needs;     /* what is missing then */
};

struct test {
        const TTest *test;
        int from, to; /* it runs for each _i from the first to below the second; default: once */
        int signal;   /* by which it must end, if any */
        const struct test_case *in; /* default: the program's */
        bool (*can_run)(void);      /* where it says no, the test is left out */
        const char *needs;          /* what is missing then */
        struct test *next;
};

#define UNLIMITED (-1)

#define TEST(name_, ...)                                           \
        static const TTest *name_;                                 \
        static __attribute__((constructor)) void name_##_add(void) \
        {                                                          \
                static struct test test;                           \
                                                                   \
                test = (struct test){.test = name_, __VA_ARGS__};  \
                add_test(&test);                                   \
        }                                                          \
        START_TEST(name_)

#define TESTS_MAIN(...)                                                                          \
        int main(void)                                                                           \
        {                                                                                        \
                return run_all_tests(&(const struct test_case){.name = __VA_ARGS__}, run_suite); \
        }

static struct test *first_test, **next_test = &first_test;

static inline void add_test(struct test *test)
{
        *next_test = test;
        next_test = &test->next;
}

/* Check's limits, of 4 s where a test sets none, are there to end what hangs; a machine that has much else to
 * do is slow. It reads this when a case is made. */
static __attribute__((constructor)) void be_patient(void)
{
        (void)setenv("CK_TIMEOUT_MULTIPLIER", "5", 0);
}

static inline int run_suite(Suite *suite)
{
        SRunner *runner = srunner_create(suite);
        int n_failed;

        srunner_set_tap(runner, "-");
        srunner_run_all(runner, CK_SILENT);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline TCase *make_case(Suite *suite, const struct test_case *of)
{
        TCase *tests = tcase_create(of->name);

        if (of->limit_s != 0)
                tcase_set_timeout(tests, of->limit_s == UNLIMITED ? 0 : of->limit_s);
        tcase_add_checked_fixture(tests, of->start, of->stop);
        suite_add_tcase(suite, tests);
        return tests;
}

static inline Suite *suite_of_tests(const struct test_case *common)
{
        Suite *suite = suite_create(common->name);
        const struct test_case *in = NULL;
        TCase *tests = NULL;

        for (const struct test *test = first_test; test; test = test->next) {
                if (test->can_run && !test->can_run()) {
                        (void)printf("# left out: %s: needs %s\n", test->test->name, test->needs);
                        continue;
                }
                if (!tests || test->in != in)
                        tests = make_case(suite, test->in ? test->in : common);
                in = test->in;
                tcase_add_loop_test_raise_signal(tests, test->test, test->signal, test->from,
                                                 test->to ? test->to : 1);
        }
        (void)fflush(stdout);
        return suite;
}

static inline int run_all_tests(const struct test_case *common, int (*run)(Suite *suite))
{
        if (!common->can_run || common->can_run())
                return run(suite_of_tests(common));
        (void)printf("1..0 # SKIP needs %s\n", common->needs);
        return EXIT_SUCCESS;
}
