/* How every C test ends: runs the suite, prints TAP, makes an exit status of it. */
#pragma once

#include <check.h>
#include <stdlib.h>

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
