/* SPDX-License-Identifier: Apache-2.0 */
/* Files are made ahead, a bounded number of them, and at once where none is in stock. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/server/session/file_stock.h"
#include "tests/suite.h"

#define N_BYTES   135168
#define N_THREADS 4
#define N_TURNS   200

static struct file_stock *stock;
static atomic_bool is_over;

static int make(size_t n_bytes, struct stock_file *ret_file)
{
        CLEANUP(closep)
        int fd = -1;
        void *bytes;
        int r = memfd_new("gpumem-test", n_bytes, &fd);

        if (!r)
                r = memfd_map_shared(fd, n_bytes, &bytes);
        if (!r)
                *ret_file = (struct stock_file){bytes, n_bytes, steal_fd(&fd)};
        return r;
}

static void start(void)
{
        ck_assert_int_eq(file_stock_new(make, N_BYTES, &stock), 0);
}

static void stop(void)
{
        stock = file_stock_free(stock);
}

/* Made without any fd: it was in stock. */
static unsigned count_made_ahead(void)
{
        struct rlimit before, none;
        struct stock_file file;
        unsigned n = 0;

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 0;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        for (; file_stock_take(stock, &file) == 0; n++) {
                stock_file_deinit(&file);
        }
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        return n;
}

static void expect_new(const struct stock_file *file)
{
        static const char zeros[N_BYTES];

        ck_assert_uint_eq(file->n_bytes, N_BYTES);
        ck_assert_int_eq(memcmp(file->bytes, zeros, N_BYTES), 0);
        ck_assert_int_eq(memfd_check(file->fd, N_BYTES), 0);
        ck_assert_int_eq(fcntl(file->fd, F_GETFD), FD_CLOEXEC);
}

static void take_and_use(void)
{
        struct stock_file file;

        ck_assert_int_eq(file_stock_take(stock, &file), 0);
        expect_new(&file);
        memset(file.bytes, 0xff, file.n_bytes);
        stock_file_deinit(&file);
}

TEST(a_file_is_made_where_none_is_in_stock)
{
        ck_assert_uint_eq(count_made_ahead(), 0);
        take_and_use();
}

TEST(files_are_made_ahead_up_to_a_bound)
{
        ck_assert(file_stock_is_low(stock));
        file_stock_fill(stock);
        ck_assert(!file_stock_is_low(stock));
        ck_assert_uint_eq(count_made_ahead(), FILE_STOCK_MAX);
        ck_assert(file_stock_is_low(stock));
        ck_assert_uint_eq(count_made_ahead(), 0);
}

/* What one client wrote is in no other one's. */
TEST(none_is_had_by_two)
{
        file_stock_fill(stock);
        for (unsigned i = 0; i < 3; i++)
                take_and_use();
}

TEST(where_the_kernel_refuses_a_file_nothing_is_in_stock)
{
        struct rlimit before, none;
        struct stock_file file = {.fd = -7};

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 0;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        file_stock_fill(stock);
        ck_assert_int_eq(file_stock_take(stock, &file), -EMFILE);
        ck_assert_int_eq(file.fd, -7);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        take_and_use();
}

TEST(the_last_fds_are_left_to_others)
{
        struct rlimit before, few;

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = before;
        few.rlim_cur = 40;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        file_stock_fill(stock);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert_uint_lt(count_made_ahead(), FILE_STOCK_MAX);
        take_and_use();
}

static void *fill_on(void *argument)
{
        (void)argument;
        while (!is_over) {
                file_stock_fill(stock);
                (void)sched_yield();
        }
        return NULL;
}

TEST(several_threads_fill_it_while_one_takes)
{
        pthread_t threads[N_THREADS];

        is_over = false;
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, fill_on, NULL), 0);
        for (unsigned i = 0; i < N_TURNS; i++)
                take_and_use();
        is_over = true;
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_le(count_made_ahead(), FILE_STOCK_MAX);
}

TESTS_MAIN("file_stock", .start = start, .stop = stop)
