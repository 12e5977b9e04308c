/* "group": who may connect. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>

#include "daemon/config_reader.h"

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
                reader_refuse(reader, "group", json, "group", "a gid, or the name of a group");
}
