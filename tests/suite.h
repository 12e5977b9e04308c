/* How every C test ends: runs the suite, prints TAP, makes an exit status of it. */
#pragma once

#include <check.h>
#include <stdlib.h>

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
