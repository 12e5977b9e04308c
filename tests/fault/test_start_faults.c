/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each call fail that a daemon makes from its start, over one client that comes and goes, to its end:
 * it ends in order, saying that it failed, or serves all the same; and the next one starts. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/fault/rig.h"
#include "tests/live/support/daemon.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_SAMPLES   24
#define PATIENCE_MS 20000
#define DEVICES     "devices=1,bytes=64MiB,reclaim_ms=0"

static uint32_t n_calls[FAULT_N_CALLS + 1];
static unsigned n_bad;

/* CUresult: out of memory, lost, unknown. */
static const unsigned results[] = {2, 46, 999};

/* The faults of a driver are of the daemon's environment: its number is not known yet. */
static void launch(const struct fault *fault)
{
        char setting[300], configuration[160], role[2] = {'0' + FAULT_DAEMON, '\0'};
        char *program = getenv("GPUMEM_TEST_DAEMON");
        char *arguments[] = {program,         (char *)"--log",
                             (char *)"error", (char *)"--canary",
                             (char *)"off",   (char *)"--config",
                             configuration,   (char *)"--device-bytes",
                             (char *)"32MiB", NULL};
        int n;

        (void)snprintf(configuration, sizeof(configuration), "%s/gpumemd.conf", gpumemd.place);
        n = snprintf(setting, sizeof(setting), DEVICES ",dir=%s/devices", gpumemd.place);
        if (fault->call == RIG_DRIVER && fault->nth)
                (void)snprintf(setting + n, sizeof(setting) - (size_t)n, ",fail=*:%u:%u",
                               fault->nth, fault->result);
        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", setting, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_TEST_FAULT_ROLE", role, 1), 0);
        ck_assert_int_eq(posix_spawn(&gpumemd.pid, program, NULL, NULL, arguments, environ), 0);
        ck_assert_int_eq(unsetenv("GPUMEM_TEST_FAULT_ROLE"), 0);
}

static bool has_ended(int *status)
{
        return waitpid(gpumemd.pid, status, WNOHANG) == gpumemd.pid;
}

/* Returns its status; it was told to end once it had served. */
static int run(const struct fault *fault, bool *ret_served)
{
        bool has_served = false;
        int status = -1;

        rig_arm(fault);
        launch(fault);
        for (unsigned ms = 0; ms < PATIENCE_MS && !has_ended(&status); ms++) {
                struct gpumem_client *client;

                if (!has_served && gpumem_connect(NULL, &client) == 0) {
                        gpumem_disconnect(client);
                        has_served = true;
                        (void)kill(gpumemd.pid, SIGTERM);
                }
                sleep_ms(1);
        }
        rig_disarm();
        if (status == -1) {
                (void)kill(gpumemd.pid, SIGKILL);
                (void)waitpid(gpumemd.pid, NULL, 0);
        }
        *ret_served = has_served;
        return status;
}

static void try(const struct fault *fault)
{
        bool has_served;
        int status = run(fault, &has_served);

        if (status != -1 && WIFEXITED(status) && (has_served || WEXITSTATUS(status)))
                return;
        (void)printf("# %s %u fails (result %u): the daemon ended with %#x\n",
                     rig_call_names[fault->call], fault->nth, fault->result, (unsigned)status);
        (void)fflush(stdout);
        n_bad++;
}

static struct fault fault_number(uint32_t number)
{
        struct fault fault = {.role = FAULT_DAEMON, .call = RIG_DRIVER};
        uint32_t n_driver = n_calls[RIG_DRIVER] * (uint32_t)ARRAY_SIZE(results);

        if (number < n_driver) {
                fault.nth = 1 + number / (uint32_t)ARRAY_SIZE(results);
                fault.result = results[number % ARRAY_SIZE(results)];
                return fault;
        }
        rig_number(&fault, n_calls, number - n_driver);
        return fault;
}

/* The driver's calls of a start are not many more than these. */
#define N_DRIVER_CALLS 16

static uint32_t measure(void)
{
        struct fault none = {.role = FAULT_DAEMON};
        bool has_served;
        uint32_t n = N_DRIVER_CALLS * (uint32_t)ARRAY_SIZE(results);

        ck_assert_int_eq(run(&none, &has_served), 0);
        ck_assert(has_served);
        n_calls[RIG_DRIVER] = N_DRIVER_CALLS;
        for (unsigned call = 0; call < FAULT_N_CALLS; call++) {
                n_calls[call] = atomic_load(&rig_page->n_calls[FAULT_DAEMON][call]);
                n += n_calls[call] * rig_n_ways(call);
        }
        return n;
}

START_TEST(a_daemon_that_cannot_start_says_so)
{
        struct test_random random = {.state = rig_seed};
        struct fault none = {.role = FAULT_DAEMON};
        uint32_t n, n_tried, n_fired = 0;
        bool has_served;

        daemon_start(&gpumemd, DEVICES, NULL);
        daemon_kill(&gpumemd);
        n = measure();
        n_tried = rig_is_all() ? n : N_SAMPLES;
        for (uint32_t i = 0; i < n_tried; i++) {
                struct fault fault = fault_number(
                        rig_is_all() ? i : (uint32_t)test_random_below(&random, n));

                try(&fault);
                n_fired += fault.call == RIG_DRIVER || atomic_load(&rig_page->n_fired);
        }
        (void)printf("# start, daemon: %u of %u faults\n", n_fired, n);
        (void)fflush(stdout);
        ck_assert_int_eq(run(&none, &has_served), 0);
        ck_assert(has_served);
        daemon_clear(&gpumemd);
        ck_assert_uint_eq(n_bad, 0);
}
END_TEST

int main(int n_arguments, char **arguments)
{
        Suite *suite = suite_create("start_faults");
        TCase *tests = tcase_create("start_faults");

        (void)n_arguments;
        tcase_set_timeout(tests, 0);
        tcase_add_test(tests, a_daemon_that_cannot_start_says_so);
        suite_add_tcase(suite, tests);
        return rig_run(suite, arguments);
}
