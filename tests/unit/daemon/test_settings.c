/* SPDX-License-Identifier: Apache-2.0 */
/* How much a pool may reserve: the setting, limited by the machine's memory, with a line in the log. */
#include "daemon/server/core/pool_settings.h"
#include "daemon/server/core/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

static char said[1024];

void __wrap_log_setup(const char *name, enum log_level threshold);
void __wrap_log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

void __wrap_log_setup(const char *name, enum log_level threshold)
{
        (void)name;
        (void)threshold;
}

void __wrap_log_line(enum log_level level, const char *format, ...)
{
        va_list arguments;

        ck_assert_int_eq(level, LOG_WARNING);
        va_start(arguments, format);
        (void)vsnprintf(said, sizeof(said), format, arguments);
        va_end(arguments);
}

static uint64_t max_of(const struct settings *settings)
{
        struct pool_row row = {
                .kind = GPUMEM_DEVICE, .n_capacity_bytes = 64 * MIB, .name = "the device"};

        *said = '\0';
        return pool_settings_max(settings, &row);
}

static uint64_t max_by(uint64_t max_bytes, double max_fraction)
{
        struct pool_rule rule = {.selector = POOL_OF_EACH_DEVICE,
                                 .max_bytes = max_bytes,
                                 .max_fraction = max_fraction};
        struct settings settings = {.rules = &rule, .n_rules = 1};

        return max_of(&settings);
}

TEST(what_there_is_may_be_said_in_silence)
{
        ck_assert_uint_eq(max_by(64 * MIB, 0), 64 * MIB);
        ck_assert_uint_eq(max_by(0, 1), 64 * MIB);
        ck_assert_uint_eq(max_by(10 * MIB, 0.5), 10 * MIB);
        ck_assert_uint_eq(max_by(40 * MIB, 0.5), 32 * MIB);
        /* The smaller value applies, so that the other may be for a larger machine. */
        ck_assert_uint_eq(max_by(100 * MIB, 0.5), 32 * MIB);
        ck_assert_uint_eq(max_by(2 * MIB, 0), 2 * MIB);
        ck_assert_uint_eq(max_by(5 * MIB, 0), 4 * MIB);
        ck_assert_str_eq(said, "");
}

TEST(more_than_there_is_is_cut_and_said)
{
        struct settings settings = {.n_device_bytes = 128 * MIB};

        ck_assert_uint_eq(max_by(100 * MIB, 0), 64 * MIB);
        ck_assert_str_eq(said, "the device: the maximum of 100.00 MiB exceeds the memory that "
                               "exists; using 64.00 MiB");
        ck_assert_uint_eq(max_of(&settings), 64 * MIB);
        ck_assert_str_eq(said, "the device: the maximum of 128.00 MiB exceeds the memory that "
                               "exists; using 64.00 MiB");
}

TEST(less_than_a_block_is_a_block_and_said)
{
        ck_assert_uint_eq(max_by(0, 1e-300), 2 * MIB);
        ck_assert_str_eq(said,
                         "the device: the maximum of 0 B is less than one block; using 2.00 MiB");
        ck_assert_uint_eq(max_by(8 * MIB, 1.0 / 64), 2 * MIB);
        ck_assert_str_eq(
                said, "the device: the maximum of 1.00 MiB is less than one block; using 2.00 MiB");
}

TESTS_MAIN("settings")
