/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static const char *const prefixes[] = {[UUID_OF_GPU] = "GPU-", [UUID_OF_MIG] = "MIG-"};

enum uuid_kind uuid_kind_of(const char *device_name)
{
        return strstr(device_name, " MIG ") ? UUID_OF_MIG : UUID_OF_GPU;
}

static bool is_after_dash(unsigned i)
{
        return i == 4 || i == 6 || i == 8 || i == 10;
}

void uuid_print(enum uuid_kind kind, const uint8_t uuid[static UUID_BYTES],
                char text[static UUID_TEXT_MAX])
{
        int n = snprintf(text, UUID_TEXT_MAX, "%s", prefixes[kind]);

        for (unsigned i = 0; i < UUID_BYTES; i++)
                n += snprintf(text + n, UUID_TEXT_MAX - (size_t)n, "%s%02x",
                              is_after_dash(i) ? "-" : "", uuid[i]);
}

static int digit(char c)
{
        if (!isxdigit((unsigned char)c))
                return -1;
        return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static bool has_prefix(const char *text)
{
        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
                if (strncmp(text, prefixes[i], UUID_PREFIX_CHARS) == 0)
                        return true;
        }
        return false;
}

bool uuid_parse(const char *text, uint8_t ret_uuid[static UUID_BYTES])
{
        uint8_t uuid[UUID_BYTES];

        if (!has_prefix(text))
                return false;
        text += UUID_PREFIX_CHARS;
        for (unsigned i = 0; i < UUID_BYTES; i++) {
                int high, low;

                if (is_after_dash(i) && *text++ != '-')
                        return false;
                high = digit(text[0]);
                low = high < 0 ? -1 : digit(text[1]);
                if (low < 0)
                        return false;
                uuid[i] = (uint8_t)(high << 4 | low);
                text += 2;
        }
        if (*text)
                return false;
        memcpy(ret_uuid, uuid, sizeof(uuid));
        return true;
}
