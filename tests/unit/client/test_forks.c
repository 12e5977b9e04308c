/* SPDX-License-Identifier: Apache-2.0 */
/* Children that are forked while other threads have locks of the process: they have none of these threads, and can
 * take the locks. A child that waits for ever is ended by its alarm. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "client/adapters/python.h"
#include "client/watch/debug.h"
#include "tests/suite.h"

#define N_THREADS 2
#define N_FORKS   500
#define ALARM_S   20

/* A child may find the locks of AddressSanitizer's malloc taken. */
static bool has_plain_malloc(void)
{
#ifdef __SANITIZE_ADDRESS__
        return false;
#else
        return true;
#endif
}

#define NEEDS_PLAIN_MALLOC .can_run = has_plain_malloc, .needs = "malloc without AddressSanitizer"

static _Atomic bool is_over;

static void *repeat(void *argument)
{
        void (**use)(void) = argument;

        while (!is_over)
                (*use)();
        return NULL;
}

/* Threads take and leave the lock in `use`, again and again. */
static void check_forks(void (*use)(void))
{
        pthread_t threads[N_THREADS];
        int status = 0;

        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, repeat, &use), 0);
        for (unsigned i = 0; i < N_FORKS && status == 0; i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        (void)signal(SIGALRM, SIG_DFL); /* Check's would end the test, too */
                        (void)alarm(ALARM_S);
                        use();
                        _exit(0);
                }
                ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        }
        is_over = true;
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(status, 0);
}

static void write_line(void)
{
        log_error("a line");
}

TEST(a_child_has_the_lock_of_the_log)
{
        ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
        check_forks(write_line);
}

static void begin_and_end(void)
{
        struct debug debug;

        debug_init(&debug);
        if (debug_read_setting(&debug))
                abort();
        debug_deinit(&debug);
}

TEST(a_child_has_the_lock_of_what_is_told_at_the_exit, NEEDS_PLAIN_MALLOC)
{
        ck_assert_int_eq(setenv("GPUMEM_DEBUG", "leaks", 1), 0);
        check_forks(begin_and_end);
}

static void find_python(void)
{
        if (python_find())
                abort();
}

/* There is none here, so each call looks for it. */
TEST(a_child_has_the_lock_of_the_search_for_python, NEEDS_PLAIN_MALLOC)
{
        check_forks(find_python);
}

TESTS_MAIN("forks", .limit_s = 300)
