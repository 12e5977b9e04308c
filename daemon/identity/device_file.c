/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/device_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/uuid.h"

#define READ_AND_WRITE 06u
#define OF_OWNER       6
#define OF_GROUP       3

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

int device_file_number(const char *information, const uint8_t uuid[static 16], uint32_t *ret_number)
{
        const char *is_of = value_of(information, "GPU UUID");
        const char *number = value_of(information, "Device Minor");
        char wanted[UUID_TEXT_MAX], *end;
        unsigned long n;

        if (!is_of || !number || *number < '0' || *number > '9')
                return -EPROTO;
        uuid_print(UUID_OF_GPU, uuid, wanted);
        if (strncasecmp(is_of, wanted, strlen(wanted)) != 0)
                return -ENODEV;
        n = strtoul(number, &end, 10);
        if ((*end != '\n' && *end != '\0' && *end != ' ') || n > UINT32_MAX)
                return -EPROTO;
        *ret_number = (uint32_t)n;
        return 0;
}
