/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is taken back, and a process that delays this delays nothing else. */
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "tests/missing_page.h"
#include "tests/suite.h"

#define N_BYTES (1 << 20)
#define PAGE    4096

static struct page_sweeper *sweeper;

static void start(void)
{
        ck_assert_int_eq(page_sweeper_new(&sweeper), 0);
}

static void stop(void)
{
        page_sweeper_free(sweeper);
}

static int new_file(void)
{
        static const char bytes[N_BYTES] = {1};
        int fd;

        ck_assert_int_eq(memfd_new("test", N_BYTES, &fd), 0);
        ck_assert_int_eq(pwrite(fd, bytes, N_BYTES, 0), N_BYTES);
        return fd;
}

static bool takes_memory(int fd)
{
        struct stat st;

        ck_assert_int_eq(fstat(fd, &st), 0);
        return st.st_blocks > 0;
}

static void await_release(int fd)
{
        for (unsigned i = 0; i < 3000 && takes_memory(fd); i++)
                usleep(10000);
        ck_assert(!takes_memory(fd));
}

TEST(the_memory_of_a_file_goes_while_others_hold_it)
{
        int fd = new_file();

        page_sweeper_take_file(sweeper, fcntl(fd, F_DUPFD_CLOEXEC, 0), N_BYTES);
        await_release(fd);
        closep(&fd);
}

TEST(so_does_that_of_a_mapping)
{
        int fd = new_file();
        void *bytes;

        ck_assert_int_eq(memfd_map_shared(fd, N_BYTES, &bytes), 0);
        page_sweeper_take_mapping(sweeper, bytes, N_BYTES);
        await_release(fd);
        closep(&fd);
}

TEST(what_is_left_at_the_end_is_done_before_it)
{
        int fd = new_file();
        void *bytes;

        ck_assert_int_eq(memfd_map_shared(fd, N_BYTES, &bytes), 0);
        page_sweeper_take_mapping(sweeper, bytes, N_BYTES);
        sweeper = page_sweeper_free(sweeper);
        ck_assert(!takes_memory(fd));
        closep(&fd);
}

static double now_s(void)
{
        return (double)clock_now_ns() / 1e9;
}

static unsigned count_fds(void)
{
        unsigned n = 0;
        DIR *folder = opendir("/proc/self/fd");

        ck_assert_ptr_nonnull(folder);
        while (readdir(folder))
                n++;
        closedir(folder);
        return n;
}

/* A process may have 65530 mappings: more than 4096 should not wait. Those that come all the same are not lost. */
static void fill_queue(void)
{
        for (unsigned i = 0; i < 4095; i++) {
                void *bytes;
                int fd;

                ck_assert(page_sweeper_keeps_up(sweeper));
                ck_assert_int_eq(memfd_new("test", PAGE, &fd), 0);
                ck_assert_int_eq(memfd_map_shared(fd, PAGE, &bytes), 0);
                page_sweeper_take_mapping(sweeper, bytes, PAGE);
                closep(&fd);
        }
        ck_assert(!page_sweeper_keeps_up(sweeper));
}

/* Its write holds the file's lock. */
TEST(who_makes_it_wait_holds_nobody_up_for_long)
{
        struct missing_page page;
        int written = new_file(), fd = new_file();
        void *bytes;
        double began_s;
        unsigned n_fds;

        if (missing_page_hold(&page, written)) {
                ck_assert_int_eq(memfd_map_shared(written, N_BYTES, &bytes), 0);
                began_s = now_s();
                page_sweeper_take_mapping(sweeper, bytes, N_BYTES);
                fill_queue();
                n_fds = count_fds();
                for (unsigned i = 0; i < 100; i++)
                        page_sweeper_take_file(sweeper, fcntl(fd, F_DUPFD_CLOEXEC, 0), N_BYTES);
                ck_assert_double_lt(now_s() - began_s, 50);
                ck_assert(takes_memory(fd));
                ck_assert_uint_eq(count_fds(), n_fds);
                missing_page_provide(&page);
                await_release(written);
                /* It waits, and gives up, while those before it are many. */
                for (unsigned i = 0; i < 30 && takes_memory(fd); i++)
                        page_sweeper_take_file(sweeper, fcntl(fd, F_DUPFD_CLOEXEC, 0), N_BYTES);
                ck_assert(!takes_memory(fd));
                ck_assert(page_sweeper_keeps_up(sweeper));
        }
        closep(&written);
        closep(&fd);
}

static void note_call(void *argument)
{
        (void)sem_post(argument);
}

/* Both ways to sweep, and none before it was set. */
TEST(what_comes_after_a_sweep_is_called_after_each)
{
        sem_t calls;
        int n_calls = 0;

        ck_assert_int_eq(sem_init(&calls, 0, 0), 0);
        page_sweeper_take_file(sweeper, new_file(), N_BYTES);
        page_sweeper_set_after(sweeper, note_call, &calls);
        ck_assert_int_eq(sem_getvalue(&calls, &n_calls), 0);
        ck_assert_int_eq(n_calls, 0);
        page_sweeper_take_file(sweeper, new_file(), N_BYTES);
        ck_assert_int_eq(sem_wait(&calls), 0);
        for (unsigned i = 0; i < 3; i++) {
                int fd = new_file();
                void *bytes;

                ck_assert_int_eq(memfd_map_shared(fd, N_BYTES, &bytes), 0);
                page_sweeper_take_mapping(sweeper, bytes, N_BYTES);
                ck_assert_int_eq(sem_wait(&calls), 0);
                closep(&fd);
        }
        sweeper = page_sweeper_free(sweeper);
        ck_assert_int_eq(sem_getvalue(&calls, &n_calls), 0);
        ck_assert_int_eq(n_calls, 0);
        (void)sem_destroy(&calls);
}

/* Longer than a caller waits. */
static void take_long(void *argument)
{
        (void)usleep(1500000);
        (void)sem_post(argument);
}

/* A caller that gave up waiting meanwhile was the last one to: the thread sweeps again. */
TEST(what_takes_long_after_a_sweep_delays_no_later_one)
{
        int fd = new_file();
        sem_t calls;

        ck_assert_int_eq(sem_init(&calls, 0, 0), 0);
        page_sweeper_set_after(sweeper, take_long, &calls);
        page_sweeper_take_file(sweeper, new_file(), N_BYTES);
        page_sweeper_take_file(sweeper, new_file(), N_BYTES);
        ck_assert_int_eq(sem_wait(&calls), 0);
        page_sweeper_set_after(sweeper, NULL, NULL);
        (void)usleep(100000);
        page_sweeper_take_file(sweeper, fcntl(fd, F_DUPFD_CLOEXEC, 0), N_BYTES);
        ck_assert(!takes_memory(fd));
        closep(&fd);
        (void)sem_destroy(&calls);
}

TESTS_MAIN("page_sweeper", .limit_s = 120, .start = start, .stop = stop)
