/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "tests/random.h"
#include "tests/suite.h"

/* Beyond the end of the map, in the word after its last. */
#define FROM_END (SIZE_N_CLASSES + 70)

#define UNTOUCHED UINT64_C(0x5555555555555555)

static const struct {
        const char *text;
        int result;
        uint64_t n_bytes;
} parse_rows[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"007", 0, 7},
        {"1B", 0, 1},
        {"1 b", 0, 1},
        {"512KiB", 0, 512 * KIB},
        {"512kib", 0, 512 * KIB},
        {"512 K", 0, 512 * KIB},
        {"512KB", 0, 512 * KIB},
        {"64 MiB", 0, 64 * MIB},
        {"1.5GiB", 0, 3 * GIB / 2},
        {"0.25 KiB", 0, 256},
        {"0.000000001GiB", 0, 1},
        {"0.1KiB", 0, 102},
        {"2T", 0, 2 * TIB},
        {"1P", 0, 1024 * TIB},
        {"15E", 0, UINT64_C(15) << 60},
        {"15.5EiB", 0, UINT64_C(31) << 59},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"16E", -ERANGE, 0},
        {"15.999999999999E", -EINVAL, 0},
        {"16777216TiB", -ERANGE, 0},
        {"99999999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"MiB", -EINVAL, 0},
        {".5MiB", -EINVAL, 0},
        {"1.MiB", -EINVAL, 0},
        {"1.5", -EINVAL, 0},
        {"1.5B", -EINVAL, 0},
        {"1.2.3K", -EINVAL, 0},
        {"1..2K", -EINVAL, 0},
        {"1.5 5K", -EINVAL, 0},
        {"1.0000000001K", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
        {"1i", -EINVAL, 0},
        {"1iB", -EINVAL, 0},
        {"1KiBs", -EINVAL, 0},
        {"1Ki", -EINVAL, 0},
        {"1KK", -EINVAL, 0},
        {"1 MiB ", -EINVAL, 0},
        {"1Z", -EINVAL, 0},
        {"1\tM", -EINVAL, 0},
};

TEST(size_parse_reads_what_it_promises, .to = ARRAY_SIZE(parse_rows))
{
        uint64_t n_bytes = UNTOUCHED;
        int r = size_parse(parse_rows[_i].text, &n_bytes);

        ck_assert_msg(r == parse_rows[_i].result, "\"%s\": %d", parse_rows[_i].text, r);
        ck_assert_msg(n_bytes == (r ? UNTOUCHED : parse_rows[_i].n_bytes), "\"%s\": %" PRIu64,
                      parse_rows[_i].text, n_bytes);
}

TEST(size_format_is_read_back)
{
        static const struct {
                uint64_t n_bytes;
                const char *text;
        } rows[] = {
                {0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.00 KiB"},
                {64 * MIB, "64.00 MiB"},
                {3 * GIB / 2, "1.50 GiB"},
                {UINT64_MAX, "16.00 EiB"},
        };
        char text[SIZE_TEXT_MAX];

        for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
                uint64_t n_bytes;

                ck_assert_str_eq(size_format(rows[i].n_bytes, text), rows[i].text);
                if (rows[i].n_bytes == UINT64_MAX)
                        continue;
                ck_assert_int_eq(size_parse(text, &n_bytes), 0);
                ck_assert_uint_eq(n_bytes, rows[i].n_bytes);
        }
}

/* Halves of a hundredth, too, which printf rounds to the even one. */
TEST(size_format_rounds_as_printf)
{
        struct test_random random = test_random_begin();
        char text[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];

        for (unsigned i = 0; i < 100000; i++) {
                unsigned unit = 1 + (unsigned)test_random_below(&random, 5);
                uint64_t n = test_random_next(&random) >> test_random_below(&random, 64);

                n = (n >> (i % 3 ? 10 * unit - 3 : 0)) << (i % 3 ? 10 * unit - 3 : 0);
                for (unit = 0; unit < 6 && n >> (10 * (unit + 1));)
                        unit++;
                (void)snprintf(
                        wanted, sizeof(wanted), unit ? "%.2f %s" : "%.0f %s",
                        (double)n / (double)(UINT64_C(1) << (10 * unit)),
                        (const char *[]){"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}[unit]);
                ck_assert_str_eq(size_format(n, text), wanted);
        }
}

TEST(size_round_up_at_its_edges)
{
        uint64_t rounded = UNTOUCHED;

        ck_assert_int_eq(size_round_up(0, 512, &rounded), 0);
        ck_assert_uint_eq(rounded, 0);
        ck_assert_int_eq(size_round_up(1, 512, &rounded), 0);
        ck_assert_uint_eq(rounded, 512);
        ck_assert_int_eq(size_round_up(512, 512, &rounded), 0);
        ck_assert_uint_eq(rounded, 512);
        ck_assert_int_eq(size_round_up(513, 512, &rounded), 0);
        ck_assert_uint_eq(rounded, 1024);
        ck_assert_int_eq(size_round_up(UINT64_MAX - 511, 512, &rounded), 0);
        ck_assert_uint_eq(rounded, UINT64_MAX - 511);
        ck_assert_int_eq(size_round_up(UINT64_MAX, 1, &rounded), 0);
        ck_assert_uint_eq(rounded, UINT64_MAX);
        ck_assert_int_eq(size_round_up(UINT64_MAX - 510, 512, &rounded), -EOVERFLOW);
        ck_assert_uint_eq(rounded, UINT64_MAX);
}

/* The smallest number in the class. */
static uint64_t class_floor(unsigned class)
{
        if (class < SIZE_CLASS_STEPS)
                return class;
        return (UINT64_C(8) + class % SIZE_CLASS_STEPS) << (class / SIZE_CLASS_STEPS - 1);
}

/* A class contains its floor but not the number below it. Since classes are in order, this settles the
 * class of every number. */
TEST(classes_are_contiguous_and_at_most_an_eighth_wide)
{
        ck_assert_uint_eq(class_floor(0), 0);
        ck_assert_uint_eq(size_class(0), 0);
        for (unsigned i = 1; i < SIZE_N_CLASSES; i++) {
                uint64_t floor = class_floor(i), below = class_floor(i - 1);

                ck_assert_uint_gt(floor, below);
                ck_assert_uint_eq(size_class(floor), i);
                ck_assert_uint_eq(size_class(floor - 1), i - 1);
                if (below >= SIZE_CLASS_STEPS)
                        ck_assert_uint_le(floor - below, below / SIZE_CLASS_STEPS);
                else
                        ck_assert_uint_eq(floor - below, 1);
        }
        ck_assert_uint_eq(size_class(UINT64_MAX), SIZE_N_CLASSES - 1);
        ck_assert_uint_le(UINT64_MAX - class_floor(SIZE_N_CLASSES - 1) + 1,
                          class_floor(SIZE_N_CLASSES - 1) / SIZE_CLASS_STEPS);
}

static int naive_next(const bool bits[static SIZE_N_CLASSES], unsigned from)
{
        for (unsigned bit = from; bit < SIZE_N_CLASSES; bit++) {
                if (bits[bit])
                        return (int)bit;
        }
        return -1;
}

static void compare_bitmap(const struct bitmap *map, const bool bits[static SIZE_N_CLASSES],
                           unsigned from)
{
        ck_assert(bitmap_is_sound(map));
        ck_assert_int_eq(bitmap_next(map, from), naive_next(bits, from));
        if (from < SIZE_N_CLASSES)
                ck_assert(bitmap_test(map, from) == bits[from]);
}

TEST(bitmap_holds_every_single_bit)
{
        for (unsigned bit = 0; bit < SIZE_N_CLASSES; bit++) {
                struct bitmap map = BITMAP_NULL;

                bitmap_set(&map, bit);
                ck_assert(bitmap_is_sound(&map));
                for (unsigned from = 0; from < FROM_END; from++) {
                        int next = bitmap_next(&map, from);

                        if (next != (from <= bit ? (int)bit : -1))
                                ck_abort_msg("bit %u: %d from %u on", bit, next, from);
                }
                bitmap_clear(&map, bit);
                ck_assert(bitmap_is_sound(&map));
                ck_assert_int_eq(bitmap_next(&map, 0), -1);
        }
}

TEST(bitmap_agrees_with_an_array)
{
        struct bitmap map = BITMAP_NULL;
        bool bits[SIZE_N_CLASSES] = {false};
        struct test_random random = test_random_begin();
        uint64_t n_steps = test_n_steps();

        for (uint64_t step = 0; step < n_steps; step++) {
                unsigned bit = (unsigned)test_random_below(&random, SIZE_N_CLASSES);

                /* A clear finds a set bit nearly always, so most words are empty. */
                if (test_random_below(&random, 2) == 0) {
                        bitmap_set(&map, bit);
                        bits[bit] = true;
                } else if (naive_next(bits, bit) >= 0) {
                        bit = (unsigned)naive_next(bits, bit);
                        bitmap_clear(&map, bit);
                        bits[bit] = false;
                }
                compare_bitmap(&map, bits, (unsigned)test_random_below(&random, FROM_END));
        }
}

TEST(bitmap_finds_a_broken_summary)
{
        struct bitmap map = BITMAP_NULL;

        bitmap_set(&map, 100);
        map.summary = 0;
        ck_assert(!bitmap_is_sound(&map));
}

TEST(memfd_keeps_its_size)
{
        void *bytes;
        int fd = -1;

        ck_assert_int_eq(memfd_new("test", 8192, &fd), 0);
        ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        ck_assert_int_lt(ftruncate(fd, 4096), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_lt(ftruncate(fd, 12288), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_eq(memfd_check(fd, 8192), 0);
        ck_assert_int_eq(memfd_check(fd, 8191), -EPROTO);
        ck_assert_int_eq(memfd_check(fd, 8193), -EPROTO);
        ck_assert_int_eq(memfd_map_shared(fd, 8192, &bytes), 0);
        memset(bytes, 0x7f, 8192);
        ck_assert_int_eq(munmap(bytes, 8192), 0);
        closep(&fd);
}

/* It gets those that it lacks; then each stays, and each process may seal it before. */
TEST(memfd_keeps_its_pages)
{
        void *bytes, *others = NULL;
        int fd = -1;

        ck_assert_int_eq(memfd_new_to_keep("test", 8192, &fd), 0);
        ck_assert_int_eq(memfd_check(fd, 8192), 0);
        ck_assert_int_eq(memfd_map_shared(fd, 8192, &bytes), 0);
        memset(bytes, 0x7f, 8192);
        ck_assert_int_eq(madvise(bytes, 4096, MADV_REMOVE), 0);
        ck_assert(!memfd_has_pages(bytes, 8192));
        ck_assert_int_eq(memfd_make_pages(fd, bytes, 8192), 0);
        ck_assert(memfd_has_pages(bytes, 8192));
        ck_assert(!memfd_pages_are_kept(fd));
        ck_assert_int_eq(memfd_keep_pages(fd), 0);
        ck_assert(memfd_pages_are_kept(fd));
        ck_assert_int_eq(((char *)bytes)[0], 0);
        ck_assert_int_lt(madvise(bytes, 8192, MADV_REMOVE), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_lt(ftruncate(fd, 4096), 0);
        ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
        ck_assert_int_eq(memfd_map_shared(fd, 8192, &others), -EPERM);
        ck_assert_int_eq(((char *)bytes)[4096], 0x7f);
        memset(bytes, 0x7e, 8192);
        ck_assert_int_eq(memfd_keep_pages(fd), -EPERM);
        ck_assert_int_eq(munmap(bytes, 8192), 0);
        closep(&fd);
}

#define MANY_PAGES 200

/* The first, the last, and one in the midst of a file that is looked at in several parts. */
TEST(memfd_says_whether_a_page_is_missing)
{
        static const size_t lacks[] = {0, 77, 64, 128, MANY_PAGES - 1};
        const size_t n_bytes = MANY_PAGES * 4096 - 100;

        for (unsigned i = 0; i < ARRAY_SIZE(lacks); i++) {
                char *bytes;
                int fd = -1;

                ck_assert_int_eq(memfd_new_to_keep("test", n_bytes, &fd), 0);
                ck_assert_int_eq(memfd_map_shared(fd, n_bytes, (void **)&bytes), 0);
                ck_assert_int_eq(memfd_make_pages(fd, bytes, n_bytes), 0);
                ck_assert(memfd_has_pages(bytes, n_bytes));
                ck_assert_int_eq(madvise(bytes + lacks[i] * 4096, 4096, MADV_REMOVE), 0);
                ck_assert(!memfd_has_pages(bytes, n_bytes));
                ck_assert_int_eq(memfd_keep_pages(fd), 0);
                ck_assert(!memfd_has_pages(bytes, n_bytes));
                ck_assert_int_eq(munmap(bytes, n_bytes), 0);
                closep(&fd);
        }
}

/* What is sealed against other seals cannot be kept. */
TEST(memfd_may_be_sealed_in_another_way)
{
        int fd = -1;

        ck_assert_int_eq(memfd_new_to_keep("test", 4096, &fd), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
        ck_assert_int_eq(memfd_keep_pages(fd), -EPERM);
        ck_assert(!memfd_pages_are_kept(fd));
        closep(&fd);
}

/* Of any user but the one that made it, and root. */
TEST(memfd_that_is_read_only)
{
        struct stat st;
        const void *bytes;
        void *writable = NULL;
        int fd = -1, reader = -1;

        ck_assert_int_eq(memfd_new("test", 4096, &fd), 0);
        ck_assert_int_eq(memfd_open_to_read(fd, &reader), 0);
        ck_assert(fcntl(reader, F_GETFD) & FD_CLOEXEC);
        ck_assert_int_eq(memfd_check(reader, 4096), 0);
        ck_assert_int_eq(memfd_map_shared(reader, 4096, &writable), -EACCES);
        ck_assert_int_lt(pwrite(reader, "x", 1, 0), 0);
        ck_assert_int_eq(errno, EBADF);
        ck_assert_int_lt(fallocate(reader, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
        ck_assert_int_eq(errno, EBADF);
        ck_assert_int_eq(fstat(reader, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
        ck_assert_int_eq(pwrite(fd, "x", 1, 0), 1);
        ck_assert_int_eq(memfd_map_read(reader, 4096, &bytes), 0);
        ck_assert_int_eq(*(const char *)bytes, 'x');
        ck_assert_int_eq(munmap((void *)bytes, 4096), 0);
        closep(&reader);
        ck_assert_int_eq(memfd_open_to_read(fd + 1000, &reader), -ENOENT);
        ck_assert_int_eq(reader, -1);
        closep(&fd);
}

TEST(memfd_constant_refuses_writes)
{
        static const char text[] = "not to be changed";
        const void *bytes;
        void *writable = NULL;
        int fd = -1;

        ck_assert_int_eq(memfd_new_constant("test", text, sizeof(text), &fd), 0);
        ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        ck_assert_int_eq(memfd_check(fd, sizeof(text)), 0);
        ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_lt(ftruncate(fd, 0), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_eq(memfd_map_shared(fd, sizeof(text), &writable), -EPERM);
        ck_assert_ptr_null(writable);
        ck_assert_int_eq(memfd_map_read(fd, sizeof(text), &bytes), 0);
        ck_assert_mem_eq(bytes, text, sizeof(text));
        ck_assert_int_eq(munmap((void *)bytes, sizeof(text)), 0);
        closep(&fd);
}

TEST(memfd_check_trusts_no_other_fd)
{
        int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int plain = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = -1;

        ck_assert_int_ge(unsealed, 0);
        ck_assert_int_eq(ftruncate(unsealed, 4096), 0);
        ck_assert_int_eq(memfd_check(unsealed, 4096), -EPROTO);
        ck_assert_int_eq(fcntl(unsealed, F_ADD_SEALS, F_SEAL_GROW), 0);
        ck_assert_int_eq(memfd_check(unsealed, 4096), -EPROTO);
        ck_assert_int_eq(fcntl(unsealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        ck_assert_int_eq(memfd_check(unsealed, 4096), 0);
        ck_assert_int_eq(memfd_check(plain, 0), -EPROTO);
        ck_assert_int_eq(memfd_check(-1, 0), -EPROTO);
        ck_assert_int_lt(memfd_new("test", UINT64_MAX, &fd), 0);
        ck_assert_int_eq(fd, -1);
        closep(&unsealed);
        closep(&plain);
}

/* Wherever in its second the test runs, some of the later times are in the next second. */
TEST(clock_tells_one_time_in_all_units)
{
        for (uint64_t n_ms = 0; n_ms < 3000; n_ms += 7) {
                uint64_t before_ns = clock_now_ns();
                uint64_t us = clock_now_us(), ms = clock_now_ms();
                struct timespec ahead = clock_after_ms(n_ms);
                uint64_t after_ns = clock_now_ns(), ahead_ns;

                ck_assert(us >= before_ns / 1000 && us <= after_ns / 1000);
                ck_assert(ms >= before_ns / 1000000 && ms <= after_ns / 1000000);
                ck_assert(ahead.tv_nsec >= 0 && ahead.tv_nsec < 1000000000);
                ahead_ns = (uint64_t)ahead.tv_sec * 1000000000 + (uint64_t)ahead.tv_nsec;
                ck_assert(ahead_ns >= before_ns + n_ms * 1000000);
                ck_assert(ahead_ns <= after_ns + n_ms * 1000000);
        }
}

TEST(clock_sleeps_at_least_so_long)
{
        uint64_t before_us = clock_now_us();

        clock_sleep_us(2000);
        ck_assert_uint_ge(clock_now_us() - before_us, 2000);
}

TESTS_MAIN("base", .limit_s = UNLIMITED)
