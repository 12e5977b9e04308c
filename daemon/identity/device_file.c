/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/device_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define READ_AND_WRITE 06u
#define OF_OWNER       6
#define OF_GROUP       3

#define UUID_TEXT_MAX 48

static bool grants(const struct device_file *file, unsigned shift)
{
        return (file->mode >> shift & READ_AND_WRITE) == READ_AND_WRITE;
}

bool device_file_opens_in_any_group(const struct device_file *file, uint32_t uid)
{
        if (!file->is_known || uid == 0)
                return true;
        if (uid == file->uid)
                return grants(file, OF_OWNER);
        return grants(file, OF_GROUP) && grants(file, 0);
}

/* As in the kernel, exactly one class decides (owner, group, others), even if it grants less than the
 * others. */
bool device_file_opens(const struct device_file *file, uint32_t uid, const uint32_t *gids,
                       size_t n_gids)
{
        if (!file->is_known || uid == 0 || uid == file->uid)
                return device_file_opens_in_any_group(file, uid);
        for (size_t i = 0; i < n_gids; i++) {
                if (gids[i] == file->gid)
                        return grants(file, OF_GROUP);
        }
        return grants(file, 0);
}

/* The value of the line "KEY: VALUE"; NULL: no such line. */
static const char *value_of(const char *text, const char *key)
{
        size_t length = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, length) == 0 && line[length] == ':')
                        return line + length + 1 + strspn(line + length + 1, " \t");
        }
        return NULL;
}

static void print_uuid(const uint8_t uuid[static 16], char text[static UUID_TEXT_MAX])
{
        int n = snprintf(text, UUID_TEXT_MAX, "GPU-");

        for (unsigned i = 0; i < 16; i++)
                n += snprintf(text + n, UUID_TEXT_MAX - (size_t)n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

int device_file_number(const char *information, const uint8_t uuid[static 16], uint32_t *ret_number)
{
        const char *is_of = value_of(information, "GPU UUID");
        const char *number = value_of(information, "Device Minor");
        char wanted[UUID_TEXT_MAX], *end;
        unsigned long n;

        if (!is_of || !number || *number < '0' || *number > '9')
                return -EPROTO;
        print_uuid(uuid, wanted);
        if (strncasecmp(is_of, wanted, strlen(wanted)) != 0)
                return -ENODEV;
        n = strtoul(number, &end, 10);
        if ((*end != '\n' && *end != '\0' && *end != ' ') || n > UINT32_MAX)
                return -EPROTO;
        *ret_number = (uint32_t)n;
        return 0;
}
