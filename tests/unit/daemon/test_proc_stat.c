/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of /proc/PID/stat, whatever name the process has given itself. */
#include "daemon/identity/proc_stat.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/suite.h"

/* As Linux 6.1 writes it; the argument is the process's name. */
#define STAT(name)                                                                       \
        "1234 (" name ") S 1 1234 1234 34816 1300 4194304 150 900 0 0 2 1 0 0 20 0 1 0 " \
        "987654321012 5000000 300 18446744073709551615 1 1 0 0 0 0 0 0 65536 0 0 0 17 3 0 0\n"

TEST(the_start_is_found_whatever_the_name)
{
        static const char *const stats[] = {
                STAT("sh"),       STAT(""),        STAT("a b"),           STAT("a) R 1 2 3"),
                STAT(") S 1 (("), STAT("\n1 (x)"), STAT("1 (a) S 1 1 1"),
        };
        uint64_t ticks;

        for (unsigned i = 0; i < sizeof(stats) / sizeof(stats[0]); i++) {
                ticks = 0;
                ck_assert_int_eq(proc_stat_start(stats[i], &ticks), 0);
                ck_assert_uint_eq(ticks, UINT64_C(987654321012));
        }
}

TEST(what_is_cut_is_no_start)
{
        const char whole[] = STAT("sh");
        char text[sizeof(whole)];
        uint64_t ticks = 7;

        /* The number ends before the text does: a text that is cut inside it must be refused. */
        for (size_t n = 0; n <= sizeof(whole); n++) {
                int r;

                (void)snprintf(text, sizeof(text), "%.*s", (int)n, whole);
                ticks = 7;
                r = proc_stat_start(text, &ticks);
                ck_assert_int_eq(r ? -EPROTO : 0, r);
                ck_assert_uint_eq(ticks, r ? 7 : UINT64_C(987654321012));
        }
        ck_assert_int_eq(
                proc_stat_start("1 (sh) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 -9 1", &ticks),
                -EPROTO);
        ck_assert_int_eq(proc_stat_start("no parenthesis", &ticks), -EPROTO);
}

TEST(this_process_has_one)
{
        char text[1024] = "";
        FILE *file = fopen("/proc/self/stat", "re");
        uint64_t ticks = 0;

        ck_assert_ptr_nonnull(file);
        ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(proc_stat_start(text, &ticks), 0);
        ck_assert_uint_gt(ticks, 0);
}

TESTS_MAIN("proc_stat")
