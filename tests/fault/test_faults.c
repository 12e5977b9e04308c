/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the nth call of a kind fail, in the daemon or in a client, for each n and each kind, and looks what became of
 * it: no process crashes, no byte is wrong, nothing is left behind, and the next client is served. Calls are those of the C
 * library, of the kernel and of the driver. GPUMEM_TEST_FAULTS=all: all of them; else some, by GPUMEM_TEST_SEED. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/fault/rig.h"
#include "tests/fault/scenarios.h"
#include "tests/live/support/daemon.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_SAMPLES   8
#define PATIENCE_MS 10000
#define KNOCK_MS    100
#define WAIT_MS     500
#define CHILD_S     60
#define HANG_MS     30

/* CUresult: out of memory, invalid value, not permitted, ECC, lost, unknown; 0 is a call that hangs. */
static const unsigned results[] = {2, 1, 800, 214, 46, 999, 0};

/* What a child has to tell. */
struct told {
        _Atomic unsigned is_armed;
        int result, again;
        int64_t n_live;
        unsigned n_fds;
        unsigned n_maps; /* of devices and of memfds */
};

static const struct scenario *scenario;
static struct told *told; /* shared with the child */
static struct told clean; /* of one in which nothing failed */
static int64_t daemon_n_live;
static unsigned daemon_n_fds;
static unsigned n_bad;
static uint32_t n_calls[FAULT_N_ROLES][FAULT_N_CALLS + 1];
static struct test_random randomness;

static void arm_driver(const struct fault *fault, pid_t client)
{
        char line[64];
        pid_t pid = fault->role == FAULT_DAEMON ? gpumemd.pid : client;

        if (!fault->nth)
                (void)snprintf(line, sizeof(line), "count=*");
        else if (fault->result)
                (void)snprintf(line, sizeof(line), "fail=*:%u:%u", fault->nth, fault->result);
        else
                (void)snprintf(line, sizeof(line), "hang=*:%u", fault->nth);
        daemon_fault(&gpumemd, pid, line);
}

/* Of the process that had "count=*". */
static uint32_t driver_calls(pid_t pid)
{
        char path[256];
        unsigned n = 0;
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/devices/calls.%d", gpumemd.place, (int)pid);
        file = fopen(path, "re");
        if (!file)
                return 0;
        ck_assert_int_eq(fscanf(file, "%u", &n), 1);
        (void)fclose(file);
        (void)unlink(path);
        return n;
}

/* A client whose connection broke cannot say what it has unmapped: it lingers until its process ends. */
static bool may_linger(const struct fault *fault)
{
        return fault->call == FAULT_sendmsg || fault->call == FAULT_recvmsg ||
               fault->call == FAULT_recvmmsg;
}

static unsigned own_maps(void)
{
        char *line = NULL;
        size_t n_line = 0;
        unsigned n = 0;
        FILE *file = fopen("/proc/self/maps", "re");

        ck_assert_ptr_nonnull(file);
        while (getline(&line, &n_line, file) >= 0)
                n += strstr(line, gpumemd.place) || strstr(line, "/memfd:");
        free(line);
        (void)fclose(file);
        return n;
}

/* With the fault, and then without. A device that the daemon has lost is back within seconds. */
static void run_child(const struct fault *fault)
{
        struct gpu *gpu;

        /* Check's own handler would kill all of this test, and not say why. */
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(CHILD_S);
        if (scenario->cache_size)
                (void)setenv("GPUMEM_CACHE_SIZE", scenario->cache_size, 1);
        else
                (void)unsetenv("GPUMEM_CACHE_SIZE");
        if (gpu_new(0, &gpu) || gpu_use(gpu))
                _exit(EXIT_FAILURE);
        rig_become(FAULT_CLIENT);
        if (fault && fault->call == RIG_DRIVER)
                arm_driver(fault, getpid());
        else if (fault)
                rig_arm(fault);
        atomic_store(&told->is_armed, 1);
        scenario_wait_ms = fault ? WAIT_MS : PATIENCE_MS;
        told->result = scenario->run(gpu);
        rig_disarm();
        scenario_wait_ms = fault && may_linger(fault) ? WAIT_MS : PATIENCE_MS;
        /* What hangs is let go by the parent. */
        if (fault && fault->call == RIG_DRIVER && fault->nth && fault->result)
                daemon_fault(&gpumemd, 0, "");
        if (fault && fault->role == FAULT_CLIENT && (fault->call != RIG_DRIVER || fault->nth))
                told->again = scenario->run(gpu);
        told->n_live = atomic_load(&rig_page->n_live[FAULT_CLIENT]);
        told->n_fds = own_fds();
        told->n_maps = own_maps();
        _exit(EXIT_SUCCESS);
}

static void complain(const struct fault *fault, const char *what, long long n, long long expected)
{
        (void)printf("# %s: %s %u of the %s fails (result %u): %s: %lld, not %lld\n",
                     scenario->name, fault ? rig_call_names[fault->call] : "no call",
                     fault ? fault->nth : 0, fault ? rig_role_names[fault->role] : "none",
                     fault ? fault->result : 0, what, n, expected);
        (void)fflush(stdout);
        n_bad++;
}

/* Of what can be borne by no test that follows. */
static void abort_for(const struct fault *fault, const char *what, long long n, long long expected)
{
        complain(fault, what, n, expected);
        ck_abort_msg("the daemon has not come through");
}

static void complain_end(const struct fault *fault, int status)
{
        if (WIFSIGNALED(status))
                (void)printf("# the client was ended by SIG%s%s\n", sigabbrev_np(WTERMSIG(status)),
                             WTERMSIG(status) == SIGALRM ? ": it took longer than a minute" : "");
        complain(fault, "the client's status", status, 0);
}

/* Until it has ended; what hangs in the driver goes on after a while. */
static void await_child(const struct fault *fault, pid_t child)
{
        bool hangs = fault && fault->call == RIG_DRIVER && fault->nth && !fault->result;
        int status = -1;

        /* Not before it is told to hang: that would be for ever. */
        for (unsigned ms = 0; hangs && ms < HANG_MS && waitpid(child, &status, WNOHANG) == 0;
             ms += atomic_load(&told->is_armed))
                sleep_ms(1);
        if (hangs)
                daemon_fault(&gpumemd, 0, "");
        if (status == -1)
                ck_assert_int_eq(waitpid(child, &status, 0), child);
        if (status)
                complain_end(fault, status);
        if (fault && fault->call == RIG_DRIVER && !fault->nth)
                n_calls[fault->role][RIG_DRIVER] = driver_calls(
                        fault->role == FAULT_DAEMON ? gpumemd.pid : child);
        daemon_fault(&gpumemd, 0, "");
}

static void run(const struct fault *fault)
{
        pid_t child;
        int status;

        *told = (struct told){0};
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
                run_child(fault);
        await_child(fault, child);
        if (waitpid(gpumemd.pid, &status, WNOHANG) != 0)
                abort_for(fault, "the daemon's status", status, 0);
        if (told->result == -EBADMSG)
                complain(fault, "a wrong byte", told->result, 0);
}

static bool is_quiet(void)
{
        return daemon_figure(FIGURE_charged) == 0 && daemon_figure(FIGURE_leases) == 0 &&
               daemon_figure(FIGURE_waiting) == 0 && daemon_figure(FIGURE_driver) == 0;
}

/* What the daemon has while no client is connected. */
static void await_return(const struct fault *fault)
{
        int64_t n_live = 0;
        unsigned n_fds = 0;

        for (unsigned ms = 0; !is_quiet(); ms++) {
                if (ms == PATIENCE_MS)
                        abort_for(fault, "charged bytes", (long long)daemon_figure(FIGURE_charged),
                                  0);
                sleep_ms(1);
        }
        daemon_free_all();
        for (unsigned ms = 0; ms < PATIENCE_MS; ms++) {
                n_live = atomic_load(&rig_page->n_live[FAULT_DAEMON]);
                n_fds = daemon_count_fds(&gpumemd);
                if (n_live == daemon_n_live && n_fds == daemon_n_fds)
                        break;
                /* The daemon forgets the identity of a client that has left when the next one comes. */
                if (ms % KNOCK_MS == KNOCK_MS - 1)
                        (void)daemon_figure(FIGURE_waiting);
                sleep_ms(1);
        }
        if (daemon_figure(FIGURE_reserved))
                complain(fault, "reserved bytes", (long long)daemon_figure(FIGURE_reserved), 0);
        if (n_fds != daemon_n_fds)
                complain(fault, "the daemon's fds", n_fds, daemon_n_fds);
        if (n_live != daemon_n_live)
                complain(fault, "the daemon's pieces of memory", n_live, daemon_n_live);
        daemon_n_fds = n_fds;
        daemon_n_live = n_live;
}

static void try(const struct fault *fault)
{
        run(fault);
        if (fault->role == FAULT_CLIENT) {
                if (told->again && !(told->again == GPUMEM_E_TIMED_OUT && may_linger(fault)))
                        complain(fault, "the same again", told->again, 0);
                if (told->n_fds != clean.n_fds)
                        complain(fault, "the client's fds", told->n_fds, clean.n_fds);
                if (told->n_maps != clean.n_maps)
                        complain(fault, "the client's mappings", told->n_maps, clean.n_maps);
                if (told->n_live != clean.n_live)
                        complain(fault, "the client's pieces of memory", told->n_live,
                                 clean.n_live);
        }
        await_return(fault);
        run(NULL);
        if (told->result)
                complain(fault, "the next client", told->result, 0);
        await_return(fault);
}

#define N_KNOCKS 5

/* What the daemon has at rest. The identity of a client that has left may be there for a while: the daemon forgets it when
 * another one comes. */
static void measure_daemon(void)
{
        daemon_n_live = INT64_MAX;
        for (unsigned i = 0; i < N_KNOCKS; i++) {
                int64_t n_live;

                (void)daemon_figure(FIGURE_waiting);
                daemon_n_fds = daemon_quiet_fds(&gpumemd);
                n_live = atomic_load(&rig_page->n_live[FAULT_DAEMON]);
                if (n_live < daemon_n_live)
                        daemon_n_live = n_live;
        }
}

/* How much there is of everything when nothing fails. */
static void measure(void)
{
        static const struct fault none = {.role = FAULT_CLIENT, .nth = 0};

        run(NULL);
        ck_assert_int_eq(told->result, 0);
        while (!is_quiet())
                sleep_ms(1);
        daemon_free_all();
        measure_daemon();
        for (enum fault_role role = FAULT_DAEMON; role < FAULT_N_ROLES; role++) {
                struct fault driver = {.role = role, .call = RIG_DRIVER};

                run(&driver);
                ck_assert_int_eq(told->result, 0);
                await_return(&driver);
        }
        run(&none);
        ck_assert_int_eq(told->result | told->again, 0);
        clean = *told;
        for (unsigned role = 0; role < FAULT_N_ROLES; role++) {
                for (unsigned call = 0; call < FAULT_N_CALLS; call++)
                        n_calls[role][call] = atomic_load(&rig_page->n_calls[role][call]);
        }
        await_return(&none);
}

/* Calls that are one after the other: driver's by result, then the library's by kind. */
static struct fault fault_number(enum fault_role role, uint32_t number)
{
        struct fault fault = {.role = role, .call = RIG_DRIVER};
        uint32_t n_driver = n_calls[role][RIG_DRIVER] * (uint32_t)ARRAY_SIZE(results);

        if (number < n_driver) {
                fault.nth = 1 + number / (uint32_t)ARRAY_SIZE(results);
                fault.result = results[number % ARRAY_SIZE(results)];
                return fault;
        }
        rig_number(&fault, n_calls[role], number - n_driver);
        return fault;
}

static uint32_t count_faults(enum fault_role role)
{
        uint32_t n = n_calls[role][RIG_DRIVER] * (uint32_t)ARRAY_SIZE(results);

        for (unsigned call = 0; call < FAULT_N_CALLS; call++)
                n += n_calls[role][call] * rig_n_ways(call);
        return n;
}

static void sweep(enum fault_role role)
{
        bool is_all = rig_is_all();
        uint32_t n = count_faults(role), n_tried = is_all ? n : N_SAMPLES, n_fired = 0;

        for (uint32_t i = 0; i < n_tried; i++) {
                struct fault fault = fault_number(
                        role, is_all ? i : (uint32_t)test_random_below(&randomness, n));

                try(&fault);
                n_fired += fault.call == RIG_DRIVER || atomic_load(&rig_page->n_fired);
        }
        (void)printf("# %s, %s: %u of %u faults\n", scenario->name, rig_role_names[role], n_fired,
                     n);
        (void)fflush(stdout);
}

static void start(void)
{
        static const char *const options[] = {"--pinned-bytes", "64MiB", NULL};
        char role[2] = {'0' + FAULT_DAEMON, '\0'};

        ck_assert_int_eq(setenv("GPUMEM_TEST_FAULT_ROLE", role, 1), 0);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB,reclaim_ms=0", options,
                                scenario->configuration);
        scenario_daemon = gpumemd.pid;
        ck_assert_int_eq(unsetenv("GPUMEM_TEST_FAULT_ROLE"), 0);
}

START_TEST(whatever_fails_nothing_is_left_behind)
{
        scenario = &scenarios[_i / 2];
        randomness.state = rig_seed + (uint64_t)_i;
        start();
        measure();
        sweep(_i % 2 ? FAULT_CLIENT : FAULT_DAEMON);
        daemon_stop(&gpumemd);
        ck_assert_uint_eq(n_bad, 0);
}
END_TEST

int main(int n_arguments, char **arguments)
{
        Suite *suite = suite_create("faults");
        TCase *tests = tcase_create("faults");

        (void)n_arguments;
        told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        tcase_set_timeout(tests, 0);
        tcase_add_loop_test(tests, whatever_fails_nothing_is_left_behind, 0, 2 * (int)n_scenarios);
        suite_add_tcase(suite, tests);
        return rig_run(suite, arguments);
}
