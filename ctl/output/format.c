/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/size.h"
#include "ctl/output/table.h"
#include "gpumem.h"

const char *format_pool_kind(uint64_t kind)
{
        return kind == GPUMEM_DEVICE ? "device" : "pinned";
}

void format_bytes(char *cell, uint64_t value)
{
        char text[SIZE_TEXT_MAX];

        (void)snprintf(cell, TABLE_CELL_MAX, "%s", size_format(value, text));
}

void format_short_bytes(char *cell, uint64_t value)
{
        static const char units[] = "BKMGTPE";
        unsigned unit = 0;
        double amount;

        while (unit < 6 && value >> (10 * (unit + 1)))
                unit++;
        amount = (double)value / (double)(UINT64_C(1) << (10 * unit));
        if (unit == 0)
                (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64 "%s", value, value ? "B" : "");
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "%.*f%c",
                               amount < 9.995   ? 2
                               : amount < 99.95 ? 1
                                                : 0,
                               amount, units[unit]);
}

void format_count(char *cell, uint64_t value)
{
        (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, value);
}

bool format_moment(char text[static FORMAT_MOMENT_MAX], const struct timespec *time)
{
        struct tm utc;
        size_t n;

        if (!gmtime_r(&time->tv_sec, &utc))
                return false;
        n = strftime(text, FORMAT_MOMENT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
        (void)snprintf(text + n, FORMAT_MOMENT_MAX - n, ".%03ldZ", time->tv_nsec / 1000000);
        return true;
}

void format_time(char *cell, uint64_t ms)
{
        double s = (double)ms / 1000;

        if (ms < 1000)
                (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64 " ms", ms);
        else if (s < 120)
                (void)snprintf(cell, TABLE_CELL_MAX, "%.1f s", s);
        else if (s < 7200)
                (void)snprintf(cell, TABLE_CELL_MAX, "%.0f min", s / 60);
        else if (s < 172800)
                (void)snprintf(cell, TABLE_CELL_MAX, "%.1f h", s / 3600);
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "%.0f d", s / 86400);
}
