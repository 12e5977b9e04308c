/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int size_round_up(uint64_t n_bytes, uint64_t unit, uint64_t *ret_rounded)
{
        uint64_t sum;

        if (__builtin_add_overflow(n_bytes, unit - 1, &sum))
                return -EOVERFLOW;
        *ret_rounded = sum & ~(unit - 1);
        return 0;
}

unsigned size_class(uint64_t n)
{
        unsigned exponent;

        if (n < SIZE_CLASS_STEPS)
                return (unsigned)n;
        exponent = 63u - (unsigned)__builtin_clzll(n);
        return (exponent - 2) * SIZE_CLASS_STEPS + (unsigned)((n >> (exponent - 3)) & 7);
}

static const char *const unit_names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

/* Hundredths of the unit, rounded as printf does: a half to the even one. */
static uint64_t hundredths(uint64_t n_bytes, unsigned unit_bits)
{
        uint64_t unit = UINT64_C(1) << unit_bits, n = n_bytes >> unit_bits,
                 rest = n_bytes & (unit - 1);
        bool is_above = false; /* of a half, by what is dropped here: 100 times the rest must fit */

        for (; unit_bits > 40; unit_bits -= 10) {
                is_above |= (rest & 1023) != 0;
                rest >>= 10;
        }
        n = 100 * n + (100 * rest >> unit_bits);
        unit = UINT64_C(1) << unit_bits;
        rest = 100 * rest & (unit - 1);
        if (rest == unit / 2)
                return n + (is_above || n % 2);
        return n + (rest > unit / 2);
}

static char *put_digits(char *text, uint64_t n, unsigned n_least)
{
        char digits[20];
        unsigned i = 0;

        for (; n || i < n_least; n /= 10)
                digits[i++] = (char)('0' + n % 10);
        while (i)
                *text++ = digits[--i];
        return text;
}

/* Without printf: a refusal has ten sizes, and is made on the daemon's loop. */
const char *size_format(uint64_t n_bytes, char text[static SIZE_TEXT_MAX])
{
        unsigned unit = 0;
        char *end = text;
        uint64_t n;

        while (unit < 6 && n_bytes >> (10 * (unit + 1)))
                unit++;
        if (unit) {
                n = hundredths(n_bytes, 10 * unit);
                end = put_digits(end, n / 100, 1);
                *end++ = '.';
                end = put_digits(end, n % 100, 2);
        } else {
                end = put_digits(end, n_bytes, 1);
        }
        *end++ = ' ';
        memcpy(end, unit_names[unit], strlen(unit_names[unit]) + 1);
        return text;
}

/* The power of 1024 that a unit's text names, or -EINVAL. */
static int unit_power(const char *text)
{
        static const char letters[] = "KMGTPE";
        const char *found;

        if (*text == '\0' || strcasecmp(text, "B") == 0)
                return 0;
        found = strchr(letters, toupper((unsigned char)*text));
        if (!found)
                return -EINVAL;
        text++;
        if (*text != '\0' && strcasecmp(text, "B") != 0 && strcasecmp(text, "iB") != 0)
                return -EINVAL;
        return (int)(found - letters) + 1;
}

/* Digits after the point, as a count of `unit` bytes; at most nine are read. */
static int parse_fraction(const char **text, uint64_t unit, uint64_t *ret_bytes)
{
        uint64_t digits = 0, scale = 1;

        if (!isdigit((unsigned char)**text))
                return -EINVAL;
        for (; isdigit((unsigned char)**text); (*text)++) {
                if (scale >= UINT64_C(1000000000))
                        return -EINVAL;
                digits = digits * 10 + (uint64_t)(**text - '0');
                scale *= 10;
        }
        *ret_bytes = (uint64_t)((unsigned __int128)digits * unit / scale);
        return 0;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
        const char *fraction = NULL;
        uint64_t whole, unit, part = 0, n_bytes;
        char *end;
        int power, r;

        if (!isdigit((unsigned char)*text))
                return -EINVAL;
        errno = 0;
        whole = strtoull(text, &end, 10);
        if (errno)
                return -ERANGE;
        if (*end == '.') {
                fraction = ++end;
                end += strspn(end, "0123456789");
        }
        if (*end == ' ') {
                end += strspn(end, " ");
                if (*end == '\0')
                        return -EINVAL;
        }
        power = unit_power(end);
        if (power < 0)
                return power;
        /* A part of a byte would be dropped without a word. */
        if (fraction && power == 0)
                return -EINVAL;
        unit = UINT64_C(1) << (10 * power);
        if (fraction) {
                r = parse_fraction(&fraction, unit, &part);
                if (r < 0)
                        return r;
        }
        if (__builtin_mul_overflow(whole, unit, &n_bytes) ||
            __builtin_add_overflow(n_bytes, part, &n_bytes))
                return -ERANGE;
        *ret_bytes = n_bytes;
        return 0;
}
