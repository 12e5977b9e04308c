/* SPDX-License-Identifier: Apache-2.0 */
/* "pools": how much each pool may reserve, the backing of pinned pools, how devices' blocks are handed out. What is not
 * said has its default in daemon/server/core/pool_settings.c. */
#include <stdlib.h>
#include <string.h>

#include "base/uuid.h"
#include "daemon/config/config_parts.h"

static const char allowed_devices[] = "an index, a UUID as nvidia-smi -L prints it, or \"all\"";
static const char allowed_sizes[] =
        "2MiB or more, less than 8EiB, in bytes or with a unit: \"12GiB\"";
static const char allowed_minima[] =
        "0 or more, less than 8EiB, in bytes or with a unit: \"12GiB\"";
static const char allowed_nodes[] = "the number of a NUMA node, or \"all\"";

static bool is_number(const json_t *json)
{
        return json_is_integer(json) && json_integer_value(json) >= 0 &&
               json_integer_value(json) <= INT32_MAX;
}

static bool is_all(const json_t *json)
{
        return json_is_string(json) && strcmp(json_string_value(json), "all") == 0;
}

static void read_device(struct reader *reader, const char *path, const json_t *json,
                        struct pool_rule *rule)
{
        if (is_number(json)) {
                rule->selector = POOL_OF_DEVICE;
                rule->number = (uint32_t)json_integer_value(json);
        } else if (is_all(json)) {
                rule->selector = POOL_OF_EACH_DEVICE;
        } else if (json_is_string(json) && uuid_parse(json_string_value(json), rule->uuid)) {
                rule->selector = POOL_OF_UUID;
        } else {
                reader_refuse(reader, path, json, "device", allowed_devices);
        }
}

static void read_node(struct reader *reader, const char *path, const json_t *json,
                      struct pool_rule *rule)
{
        if (is_number(json)) {
                rule->selector = POOL_OF_NODE;
                rule->number = (uint32_t)json_integer_value(json);
        } else if (is_all(json)) {
                rule->selector = POOL_OF_EACH_NODE;
        } else {
                reader_refuse(reader, path, json, "node", allowed_nodes);
        }
}

static void read_minimum(struct reader *reader, const char *up, const json_t *json,
                         struct pool_rule *rule)
{
        const json_t *bytes = json_object_get(json, "min_bytes");
        char path[KEY_PATH_MAX];

        if (!bytes)
                return;
        key_path(path, up, "min_bytes");
        rule->says_min = reader_size(reader, path, bytes, 0, allowed_minima, &rule->min_bytes);
        if (rule->says_min && rule->max_bytes && rule->min_bytes > rule->max_bytes)
                reader_refuse(reader, path, bytes, "minimum", "at most this pool's max_bytes");
}

static bool says_stock(const json_t *json)
{
        return json_object_get(json, "warm_bytes") || json_object_get(json, "keep_cached_bytes") ||
               json_object_get(json, "return_after_seconds") ||
               json_object_get(json, "keep_free_bytes");
}

static void read_warm(struct reader *reader, const char *up, const json_t *json,
                      struct pool_rule *rule)
{
        const json_t *bytes = json_object_get(json, "warm_bytes");
        char path[KEY_PATH_MAX];

        if (!bytes)
                return;
        key_path(path, up, "warm_bytes");
        rule->says_warm = reader_size(reader, path, bytes, 0, allowed_minima, &rule->warm_bytes);
        if (rule->says_warm && rule->max_bytes && rule->warm_bytes > rule->max_bytes)
                reader_refuse(reader, path, bytes, "size", "at most this pool's max_bytes");
}

static void read_keep(struct reader *reader, const char *up, const json_t *json,
                      struct pool_rule *rule)
{
        const json_t *bytes = json_object_get(json, "keep_cached_bytes");
        const json_t *seconds = json_object_get(json, "return_after_seconds");
        char path[KEY_PATH_MAX];

        if (bytes) {
                key_path(path, up, "keep_cached_bytes");
                rule->says_keep = reader_size(reader, path, bytes, 0, allowed_minima,
                                              &rule->keep_bytes);
        }
        if (!seconds)
                return;
        rule->says_return = json_is_integer(seconds) && json_integer_value(seconds) >= 0 &&
                            json_integer_value(seconds) <= SETTINGS_RETURN_SECONDS_MAX;
        if (rule->says_return) {
                rule->return_seconds = (uint64_t)json_integer_value(seconds);
                return;
        }
        key_path(path, up, "return_after_seconds");
        reader_refuse(reader, path, seconds, "number of seconds", "0 to 31536000, one year");
}

static void read_free(struct reader *reader, const char *up, const json_t *json,
                      struct pool_rule *rule)
{
        const json_t *bytes = json_object_get(json, "keep_free_bytes");
        char path[KEY_PATH_MAX];

        if (!bytes)
                return;
        key_path(path, up, "keep_free_bytes");
        if (json_object_get(json, "device"))
                rule->says_free = reader_size(reader, path, bytes, 0, allowed_minima,
                                              &rule->keep_free_bytes);
        else
                reader_complain(reader, path, "only allowed for device pools");
}

static void read_limit(struct reader *reader, const char *up, const json_t *json,
                       struct pool_rule *rule)
{
        const json_t *bytes = json_object_get(json, "max_bytes");
        const json_t *fraction = json_object_get(json, "max_fraction");
        char path[KEY_PATH_MAX];

        if (!bytes && !fraction && !json_object_get(json, "min_bytes") &&
            !json_object_get(json, "backing") && !json_object_get(json, "ipc") && !says_stock(json))
                reader_complain(
                        reader, up,
                        "nothing is set (expected \"max_bytes\", \"max_fraction\" (the smaller one "
                        "applies), \"min_bytes\", \"warm_bytes\", \"keep_cached_bytes\", "
                        "\"return_after_seconds\", \"keep_free_bytes\", \"backing\" or \"ipc\")");
        if (bytes) {
                key_path(path, up, "max_bytes");
                (void)reader_size(reader, path, bytes, SETTINGS_POOL_BYTES_MIN, allowed_sizes,
                                  &rule->max_bytes);
        }
        if (fraction) {
                key_path(path, up, "max_fraction");
                (void)reader_fraction(reader, path, fraction, &rule->max_fraction);
        }
}

static void read_backing(struct reader *reader, const char *up, const json_t *json,
                         struct pool_rule *rule)
{
        const json_t *backing = json_object_get(json, "backing");
        char path[KEY_PATH_MAX];

        if (!backing)
                return;
        key_path(path, up, "backing");
        if (!json_object_get(json, "pinned"))
                reader_complain(reader, path, "only allowed for pinned pools");
        else if (!json_is_string(backing) ||
                 pinned_backing_parse(json_string_value(backing), &rule->backing))
                reader_refuse(reader, path, backing, "backing", "\"memfd\" or \"vmm\"");
}

static void read_ipc(struct reader *reader, const char *up, const json_t *json,
                     struct pool_rule *rule)
{
        const json_t *ipc = json_object_get(json, "ipc");
        char path[KEY_PATH_MAX];

        if (!ipc)
                return;
        key_path(path, up, "ipc");
        if (!json_object_get(json, "device"))
                reader_complain(reader, path, "only allowed for device pools");
        else if (!json_is_string(ipc) || device_ipc_parse(json_string_value(ipc), &rule->ipc))
                reader_refuse(reader, path, ipc, "way to hand out blocks", "\"fd\" or \"legacy\"");
}

static void read_rule(struct reader *reader, const char *up, const json_t *json,
                      struct pool_rule *rule)
{
        static const char *const keys[] = {"device",
                                           "pinned",
                                           "max_bytes",
                                           "max_fraction",
                                           "min_bytes",
                                           "warm_bytes",
                                           "keep_cached_bytes",
                                           "return_after_seconds",
                                           "keep_free_bytes",
                                           "backing",
                                           "ipc",
                                           NULL};
        const json_t *device = json_object_get(json, "device");
        const json_t *pinned = json_object_get(json, "pinned");
        char path[KEY_PATH_MAX];

        if (!reader_object(reader, up, json, keys))
                return;
        if (!device == !pinned) {
                reader_complain(reader, up, "%s (expected either \"device\" or \"pinned\")",
                                device ? "both \"device\" and \"pinned\""
                                       : "neither \"device\" nor \"pinned\"");
        } else if (device) {
                key_path(path, up, "device");
                read_device(reader, path, device, rule);
        } else {
                key_path(path, up, "pinned");
                read_node(reader, path, pinned, rule);
        }
        read_limit(reader, up, json, rule);
        read_minimum(reader, up, json, rule);
        read_warm(reader, up, json, rule);
        read_keep(reader, up, json, rule);
        read_free(reader, up, json, rule);
        read_backing(reader, up, json, rule);
        read_ipc(reader, up, json, rule);
}

static bool name_the_same(const struct pool_rule *a, const struct pool_rule *b)
{
        return a->selector == b->selector && a->number == b->number &&
               memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

static void check_others(struct reader *reader, const char *path, const struct pool_rule *rules,
                         size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (name_the_same(&rules[i], &rules[n])) {
                        reader_complain(reader, path, "pools[%zu] sets this pool already", i);
                        return;
                }
        }
}

void config_read_pools(struct reader *reader, const json_t *json, struct settings *settings)
{
        struct pool_rule *rules;
        size_t n;

        if (!reader_array(reader, "pools", json))
                return;
        n = json_array_size(json);
        rules = calloc(n ? n : 1, sizeof(*rules));
        if (!rules) {
                reader_complain(reader, "pools", "out of memory");
                return;
        }
        for (size_t i = 0; i < n; i++) {
                unsigned n_faults = reader->n_faults;
                char path[KEY_PATH_MAX];

                index_path(path, "pools", i);
                read_rule(reader, path, json_array_get(json, i), &rules[i]);
                if (reader->n_faults == n_faults)
                        check_others(reader, path, rules, i);
        }
        settings->rules = rules;
        settings->n_rules = n;
}

void config_check_ipc(struct reader *reader, const struct settings *settings)
{
        bool is_one_tenant = settings->says_user && settings->tenancy == TENANCY_OF_USERS;

        for (size_t i = 0; i < settings->n_rules && !is_one_tenant; i++) {
                char up[KEY_PATH_MAX], path[KEY_PATH_MAX];

                if (settings->rules[i].ipc != IPC_LEGACY)
                        continue;
                index_path(up, "pools", i);
                key_path(path, up, "ipc");
                reader_complain(reader, path,
                                "\"legacy\" requires \"user\" and \"tenants\": \"uid\": any user "
                                "who learns a CUDA IPC handle can open the memory, so the pool may "
                                "serve one user only");
        }
}
