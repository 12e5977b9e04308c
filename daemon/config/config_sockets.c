/* SPDX-License-Identifier: Apache-2.0 */
/* "group": which group may connect; "each_user": each user's rate and share. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/config/config.h"
#include "daemon/config/config_parts.h"
#include "base/log.h"

#define CONNECTIONS_MAX 1000000

int group_parse(const char *text, gid_t *ret_group)
{
        const struct group *group = getgrnam(text);
        char *end;
        unsigned long number;

        if (group) {
                *ret_group = group->gr_gid;
                return 0;
        }
        number = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || number >= UINT32_MAX)
                return -EINVAL;
        *ret_group = (gid_t)number;
        return 0;
}

void config_read_group(struct reader *reader, const json_t *json, gid_t *group)
{
        if (!json)
                return;
        if (json_is_integer(json) && json_integer_value(json) >= 0 &&
            json_integer_value(json) < UINT32_MAX)
                *group = (gid_t)json_integer_value(json);
        else if (!json_is_string(json) || group_parse(json_string_value(json), group))
                reader_refuse(reader, "group", json, "group", "a gid or the name of a group");
}

static void read_number(struct reader *reader, const json_t *json, const char *key, uint64_t most,
                        uint64_t *number)
{
        const json_t *value = json_object_get(json, key);
        char path[KEY_PATH_MAX], allowed[64];

        if (!value)
                return;
        if (json_is_integer(value) && json_integer_value(value) >= 1 &&
            json_integer_value(value) <= (json_int_t)most) {
                *number = (uint64_t)json_integer_value(value);
                return;
        }
        key_path(path, "each_user", key);
        (void)snprintf(allowed, sizeof(allowed), "1 to %" PRIu64, most);
        reader_refuse(reader, path, value, "number", allowed);
}

void config_read_each_user(struct reader *reader, const json_t *json, struct user_rule *rule)
{
        static const char *const keys[] = {"connections", "requests_per_second", NULL};

        if (!json || !reader_object(reader, "each_user", json, keys))
                return;
        read_number(reader, json, keys[0], CONNECTIONS_MAX, &rule->n_connections);
        if (json_object_get(json, keys[1]))
                log_warning("%s: each_user.requests_per_second has no effect: users share the "
                            "daemon's time by themselves. To do: remove it",
                            reader->file);
}
