/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/parse.h"

#include <ctype.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

int parse_number(const char *text, uint64_t *ret_number)
{
        unsigned long long number;
        char *end;

        if (*text < '0' || *text > '9')
                return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (*end || errno)
                return -EINVAL;
        *ret_number = number;
        return 0;
}

int parse_milliseconds(const char *text, uint64_t *ret_ms)
{
        uint64_t ms = 0, weight = 1000;
        bool is_behind = false;

        if (!isdigit((unsigned char)*text))
                return -EINVAL;
        for (; *text; text++) {
                if (*text == '.' && !is_behind && text[1]) {
                        is_behind = true;
                        continue;
                }
                if (is_behind)
                        weight /= 10;
                if (!isdigit((unsigned char)*text) || !weight || ms > UINT32_MAX)
                        return -EINVAL;
                ms = is_behind ? ms + (uint64_t)(*text - '0') * weight
                               : 10 * ms + (uint64_t)(*text - '0') * 1000;
        }
        *ret_ms = ms;
        return 0;
}

int parse_user(const char *text, uint32_t *ret_uid)
{
        const struct passwd *user;
        uint64_t uid;

        if (parse_number(text, &uid) == 0 && uid < UINT32_MAX) {
                *ret_uid = (uint32_t)uid;
                return 0;
        }
        user = getpwnam(text);
        if (!user)
                return -EINVAL;
        *ret_uid = (uint32_t)user->pw_uid;
        return 0;
}

int parse_refuse(const char *option, const char *text, const char *expected)
{
        (void)fprintf(stderr, "gpumemctl: invalid %s \"%s\" (expected %s)\n", option, text,
                      expected);
        return -EINVAL;
}

int parse_file(const char *option, const char *text, const char **ret_path)
{
        if (!*text)
                return parse_refuse(option, text, "the name of a file");
        *ret_path = text;
        return 0;
}
