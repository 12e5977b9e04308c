/* SPDX-License-Identifier: Apache-2.0 */
/* thread: what a thread asks of the kernel's scheduler. */
#include "base/thread.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

/* Offset of the slice in what sched_getattr tells. */
enum { SLICE = 24, N_BYTES = 48 };

struct scheduled {
        uint64_t slice_ns;
        int nice;
};

static struct scheduled own(void)
{
        uint64_t attributes[N_BYTES / sizeof(uint64_t)];

        ck_assert_int_eq(syscall(SYS_sched_getattr, 0, attributes, N_BYTES, 0), 0);
        return (struct scheduled){.slice_ns = attributes[SLICE / sizeof(uint64_t)],
                                  .nice = getpriority(PRIO_PROCESS, 0)};
}

/* A thread that asks with another nice value, if it may have that. */
struct asker {
        int nice;
        bool may_have_it;
        struct scheduled before, since;
};

static void *run(void *argument)
{
        struct asker *asker = argument;

        asker->may_have_it = setpriority(PRIO_PROCESS, 0, asker->nice) == 0;
        asker->before = own();
        thread_prefer_soon();
        asker->since = own();
        return NULL;
}

static struct asker ask(int nice)
{
        struct asker asker = {.nice = nice};
        pthread_t thread;

        ck_assert_int_eq(thread_start(run, &asker, &thread), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        return asker;
}

/* The kernels before 6.12 tell 0, and have no slice of a thread's own. */
TEST(one_that_wants_a_cpu_soon_has_a_short_slice)
{
        struct scheduled mine = own();
        struct asker asker = ask(mine.nice);

        ck_assert_uint_eq(asker.since.slice_ns, asker.before.slice_ns ? 100000 : 0);
        ck_assert_uint_eq(own().slice_ns, mine.slice_ns);
}

TEST(it_comes_before_others_where_it_may)
{
        int before = own().nice;
        struct asker first = ask(-10), asker = ask(before);

        ck_assert_int_eq(asker.since.nice, first.may_have_it && before > -10 ? -10 : before);
        ck_assert_int_eq(own().nice, before);
}

TEST(a_better_nice_value_is_kept)
{
        struct asker asker = ask(-15);

        if (asker.may_have_it)
                ck_assert_int_eq(asker.since.nice, -15);
}

/* What a child says of its session's nice value. */
static void tell_nice(int to, bool leads, void (*prefer)(void))
{
        char text[64] = "";
        int fd;

        if (leads)
                (void)setsid();
        prefer();
        fd = open("/proc/self/autogroup", O_RDONLY);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                (void)snprintf(text, sizeof(text), "none");
        _exit(write(to, text, sizeof(text)) == (ssize_t)sizeof(text) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* As "/autogroup-12 nice 0"; 0: the kernel does not divide CPUs among sessions. */
static int nice_of_child(bool leads, void (*prefer)(void))
{
        char text[64] = "";
        const char *nice;
        int ends[2], status;
        pid_t pid;

        ck_assert_int_eq(pipe(ends), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
                tell_nice(ends[1], leads, prefer);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(read(ends[0], text, sizeof(text)), (ssize_t)sizeof(text));
        (void)close(ends[0]);
        (void)close(ends[1]);
        nice = strstr(text, "nice ");
        return nice ? (int)strtol(nice + strlen("nice "), NULL, 10) : 0;
}

static void prefer_nothing(void)
{
}

static void try_minus_10(void)
{
        int fd = open("/proc/self/autogroup", O_WRONLY);

        if (fd >= 0)
                (void)!write(fd, "-10", 3);
        (void)close(fd);
}

TEST(a_session_comes_before_others_if_its_leader_asks)
{
        int allowed = nice_of_child(true, try_minus_10);

        ck_assert(allowed == 0 || allowed == -10);
        /* The kernel lets one without privileges ask so often only. */
        (void)usleep(200000);
        ck_assert_int_eq(nice_of_child(true, session_prefer_soon), allowed);
        ck_assert_int_eq(nice_of_child(false, session_prefer_soon),
                         nice_of_child(false, prefer_nothing));
}

TESTS_MAIN("thread")
