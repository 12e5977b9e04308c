/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a cell of a table, as people write it. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "device" or "pinned", of a GPUMEM_DEVICE or GPUMEM_PINNED. */
const char *format_pool_kind(uint64_t kind);

/* "1.50 GiB" */
void format_bytes(char *cell, uint64_t value);

/* In five characters: "0", "512B", "1.50G", "28.0M", "1023M". */
void format_short_bytes(char *cell, uint64_t value);

void format_count(char *cell, uint64_t value);

/* "2026-11-22T12:40:34.123Z", as RFC 3339 has it. False: the year is none. */
#define FORMAT_MOMENT_MAX 64
struct timespec;
bool format_moment(char text[static FORMAT_MOMENT_MAX], const struct timespec *time);

/* "850 ms", "12.5 s", "14 min", "3.2 h", "12 d". */
void format_time(char *cell, uint64_t ms);
