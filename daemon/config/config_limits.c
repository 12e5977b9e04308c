/* SPDX-License-Identifier: Apache-2.0 */
/* "limits": how much clients and tenants may be charged. */
#include <pwd.h>
#include <string.h>

#include "daemon/config/config_parts.h"

static const char *const limit_keys[] = {
        [LIMIT_DEVICE_BYTES] = "device_bytes",
        [LIMIT_PINNED_BYTES] = "pinned_bytes",
        [LIMIT_LEASES] = "leases",
        [LIMIT_N_KINDS] = NULL,
};

static bool is_none(const json_t *json)
{
        return json_is_string(json) && strcmp(json_string_value(json), "none") == 0;
}

static void read_limit(struct reader *reader, const char *path, const json_t *json,
                       enum limit_kind kind, uint64_t *max)
{
        if (is_none(json))
                *max = LIMIT_NONE;
        else if (kind != LIMIT_LEASES)
                (void)reader_size(
                        reader, path, json, 0,
                        "a size in bytes or with a unit: \"12GiB\", or \"none\" for no limit", max);
        else if (json_is_integer(json) && json_integer_value(json) >= 0)
                *max = (uint64_t)json_integer_value(json);
        else
                reader_refuse(reader, path, json, "number of leases",
                              "0 or more, or \"none\" for no limit");
}

static void read_limits(struct reader *reader, const char *up, const json_t *json,
                        struct limit_set *limits)
{
        for (unsigned kind = 0; kind < LIMIT_N_KINDS; kind++) {
                const json_t *value = json_object_get(json, limit_keys[kind]);
                char path[KEY_PATH_MAX];

                if (!value)
                        continue;
                key_path(path, up, limit_keys[kind]);
                read_limit(reader, path, value, (enum limit_kind)kind, &limits->max[kind]);
        }
}

static void read_default(struct reader *reader, const char *path, const json_t *json,
                         struct limit_set *limits)
{
        if (json && reader_object(reader, path, json, limit_keys))
                read_limits(reader, path, json, limits);
}

bool config_read_uid(struct reader *reader, const char *path, const json_t *json, uint32_t *uid)
{
        const struct passwd *user = NULL;

        if (json_is_integer(json) && json_integer_value(json) >= 0 &&
            json_integer_value(json) < UINT32_MAX) {
                *uid = (uint32_t)json_integer_value(json);
                return true;
        }
        if (json_is_string(json))
                user = getpwnam(json_string_value(json));
        if (!user) {
                reader_refuse(reader, path, json, "user", "a uid or the name of a user");
                return false;
        }
        *uid = (uint32_t)user->pw_uid;
        return true;
}

static void store(struct reader *reader, const char *path, uint32_t uid,
                  const struct limit_set *limits, struct limits *table)
{
        int r = 0;

        for (unsigned kind = 0; kind < LIMIT_N_KINDS && !r; kind++)
                r = limits_set_uid(table, uid, (enum limit_kind)kind, limits->max[kind]);
        if (r)
                reader_complain(reader, path, "out of memory");
}

static bool says_limit(const struct limit_set *limits)
{
        for (unsigned kind = 0; kind < LIMIT_N_KINDS; kind++) {
                if (limits->max[kind] != LIMIT_INHERIT)
                        return true;
        }
        return false;
}

static void read_tenant(struct reader *reader, const char *up, const json_t *json,
                        struct limits *table)
{
        static const char *const keys[] = {"uid", "device_bytes", "pinned_bytes", "leases", NULL};
        struct limit_set limits = {{LIMIT_INHERIT, LIMIT_INHERIT, LIMIT_INHERIT}};
        const json_t *user = json_object_get(json, "uid");
        unsigned n_faults = reader->n_faults;
        char path[KEY_PATH_MAX];
        uint32_t uid;

        if (!reader_object(reader, up, json, keys))
                return;
        read_limits(reader, up, json, &limits);
        if (reader->n_faults == n_faults && !says_limit(&limits))
                reader_complain(reader, up,
                                "no limit is set (expected \"device_bytes\", \"pinned_bytes\" or "
                                "\"leases\")");
        key_path(path, up, "uid");
        if (!user)
                reader_complain(reader, path, "missing (expected a uid or the name of a user)");
        else if (!config_read_uid(reader, path, user, &uid))
                return;
        else if (limits_find_uid(table, uid) < table->n_uids)
                reader_complain(reader, path, "uid %u has limits in an earlier entry already", uid);
        else
                store(reader, up, uid, &limits, table);
}

static void read_tenants(struct reader *reader, const json_t *json, struct limits *table)
{
        if (!json || !reader_array(reader, "limits.tenants", json))
                return;
        for (size_t i = 0; i < json_array_size(json); i++) {
                char path[KEY_PATH_MAX];

                index_path(path, "limits.tenants", i);
                read_tenant(reader, path, json_array_get(json, i), table);
        }
}

void config_read_limits(struct reader *reader, const json_t *json, struct settings *settings)
{
        static const char *const keys[] = {"client", "tenant", "tenants", NULL};

        if (!reader_object(reader, "limits", json, keys))
                return;
        if (limits_new(&settings->limits)) {
                reader_complain(reader, "limits", "out of memory");
                return;
        }
        read_default(reader, "limits.client", json_object_get(json, "client"),
                     &settings->limits->client);
        read_default(reader, "limits.tenant", json_object_get(json, "tenant"),
                     &settings->limits->tenant);
        read_tenants(reader, json_object_get(json, "tenants"), settings->limits);
}
