/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/commands/limit_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "base/uuid.h"
#include "client/connection/link.h"
#include "ctl/core/report.h"
#include "ctl/output/atomic_file.h"
#include "gpumem.h"
#include "proto/listing.h"

static_assert(sizeof(((struct message_configuration_is *)NULL)->path) == LIMIT_FILE_PATH_MAX,
              "the path as it is");

/* A daemon of before this request does not know it. */
int limit_file_find(struct link *link, char ret_path[static LIMIT_FILE_PATH_MAX])
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r = link_call(link, &request, MESSAGE_CONFIGURATION, MESSAGE_CONFIGURATION_IS, &reply,
                          &fds);

        if (r)
                return r == GPUMEM_E_UNKNOWN_KIND ? -ENOENT : r;
        if (*reply.configuration_is.path != '/')
                return -ENOENT;
        (void)snprintf(ret_path, LIMIT_FILE_PATH_MAX, "%.*s", LIMIT_FILE_PATH_MAX - 1,
                       reply.configuration_is.path);
        return 0;
}

int limit_file_read(const char *path, char reason[static LIMIT_FILE_REASON_MAX],
                    struct json_t **ret_root)
{
        json_error_t error = {.line = -1};
        struct stat status;
        json_t *root;
        int r = stat(path, &status) ? -errno : 0;

        /* Reading of a FIFO would not end. */
        if (!r && !S_ISREG(status.st_mode)) {
                (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "%s: not a regular file", path);
                return -EINVAL;
        }
        if (r == -ENOENT) {
                root = json_object();
                (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "out of memory");
        } else {
                root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
                if (error.line < 0)
                        (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "%s", error.text);
                else
                        (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "%s:%d:%d: %s", path,
                                       error.line, error.column, error.text);
        }
        if (root && json_is_object(root)) {
                *ret_root = root;
                return 0;
        }
        if (root)
                (void)snprintf(reason, LIMIT_FILE_REASON_MAX, "%s: not an object", path);
        json_decref(root);
        return -EINVAL;
}

/* The largest unit in which it is whole. */
static json_t *size_to_json(uint64_t n_bytes)
{
        static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
        char text[32];
        unsigned unit = 0;

        while (n_bytes && unit < ARRAY_SIZE(units) && n_bytes % 1024 == 0) {
                n_bytes /= 1024;
                unit++;
        }
        if (!unit)
                return json_integer(json_figure(n_bytes));
        (void)snprintf(text, sizeof(text), "%" PRIu64 "%s", n_bytes, units[unit - 1]);
        return json_string(text);
}

static json_t *amount_to_json(const struct limit_change *change)
{
        if (change->max == PROTO_LIMIT_NONE)
                return json_string("none");
        if (change->kind == PROTO_LIMIT_LEASES || change->kind == PROTO_LIMIT_RETURN_SECONDS)
                return json_integer(json_figure(change->max));
        return size_to_json(change->max);
}

/* The member of that name and type, which is made if it is missing. */
static int member(json_t *object, const char *name, json_type type, json_t **ret_value)
{
        json_t *value = json_object_get(object, name);

        if (!value) {
                value = type == JSON_ARRAY ? json_array() : json_object();
                if (json_object_set_new(object, name, value))
                        return -ENOMEM;
        }
        if (json_typeof(value) != type)
                return -EINVAL;
        *ret_value = value;
        return 0;
}

static bool is_of_user(const json_t *entry, uint32_t uid)
{
        const json_t *user = json_object_get(entry, "uid");
        const struct passwd *account;

        if (json_is_integer(user))
                return json_integer_value(user) == (json_int_t)uid;
        account = json_is_string(user) ? getpwnam(json_string_value(user)) : NULL;
        return account && account->pw_uid == uid;
}

/* Whether the entry names this pool, and not all of its kind. */
static bool is_of_pool(const json_t *entry, const struct pool_row *pool)
{
        bool is_device = pool->kind == GPUMEM_DEVICE;
        const json_t *named = json_object_get(entry, is_device ? "device" : "pinned");
        uint8_t uuid[UUID_BYTES];

        if (json_is_integer(named))
                return json_integer_value(named) == (json_int_t)pool->place;
        return is_device && json_is_string(named) && uuid_parse(json_string_value(named), uuid) &&
               memcmp(uuid, pool->uuid, sizeof(uuid)) == 0;
}

static int append(json_t *list, json_t *take_entry, json_t **ret_entry)
{
        if (json_array_append_new(list, take_entry))
                return -ENOMEM;
        *ret_entry = take_entry;
        return 0;
}

/* A tenant's entry without a limit would be an error of the file. */
static int change_user(json_t *limits, const struct limit_change *change)
{
        const char *kind = limit_kind_name(change->kind);
        json_t *list, *entry = NULL;
        size_t i = 0;
        int r = member(limits, "tenants", JSON_ARRAY, &list);

        if (r)
                return r;
        while (i < json_array_size(list) && !is_of_user(json_array_get(list, i), change->holder))
                i++;
        entry = json_array_get(list, i);
        if (change->max == PROTO_LIMIT_INHERIT) {
                (void)json_object_del(entry, kind);
                if (entry && json_object_size(entry) == 1)
                        (void)json_array_remove(list, i);
                return 0;
        }
        if (!entry)
                r = append(list, json_pack("{s:I}", "uid", (json_int_t)change->holder), &entry);
        if (r)
                return r;
        return json_object_set_new(entry, kind, amount_to_json(change)) ? -ENOMEM : 0;
}

/* max_fraction would hold beside max_bytes if it is the smaller one. */
static int set_pool_max(json_t *entry, const struct limit_change *change)
{
        bool is_none = change->max == PROTO_LIMIT_NONE;
        json_t *value = is_none ? json_integer(1) : amount_to_json(change);

        (void)json_object_del(entry, is_none ? "max_bytes" : "max_fraction");
        return json_object_set_new(entry, is_none ? "max_fraction" : "max_bytes", value) ? -ENOMEM
                                                                                         : 0;
}

static int change_pool(json_t *root, const struct limit_change *change, const struct pool_row *pool)
{
        const char *key = pool->kind == GPUMEM_DEVICE ? "device" : "pinned";
        json_t *list, *entry = NULL;
        size_t i = 0;
        int r = member(root, "pools", JSON_ARRAY, &list);

        if (r)
                return r;
        while (i < json_array_size(list) && !is_of_pool(json_array_get(list, i), pool))
                i++;
        entry = json_array_get(list, i);
        if (!entry)
                r = append(list, json_pack("{s:I}", key, (json_int_t)pool->place), &entry);
        if (r)
                return r;
        if (change->kind == PROTO_LIMIT_RESERVED_BYTES)
                return set_pool_max(entry, change);
        return json_object_set_new(entry, limit_kind_name(change->kind), amount_to_json(change))
                       ? -ENOMEM
                       : 0;
}

int limit_file_change(struct json_t *root, const struct limit_change *change,
                      const struct pool_stats *pools)
{
        bool is_of_clients = change->scope == PROTO_LIMIT_OF_CLIENT;
        json_t *limits, *each;
        int r;

        if (change->scope == PROTO_LIMIT_OF_POOL) {
                for (uint32_t i = 0; i < pools->n; i++) {
                        if (pools->pools[i].id == change->holder)
                                return change_pool(root, change, &pools->pools[i]);
                }
                return -ENODEV;
        }
        r = member(root, "limits", JSON_OBJECT, &limits);
        if (r)
                return r;
        if (change->holder != PROTO_LIMIT_OF_EACH)
                return change_user(limits, change);
        r = member(limits, is_of_clients ? "client" : "tenant", JSON_OBJECT, &each);
        if (r)
                return r;
        return json_object_set_new(each, limit_kind_name(change->kind), amount_to_json(change))
                       ? -ENOMEM
                       : 0;
}

/* Whether it has a size of that name. Others are the daemon's to refuse. */
static bool find_size(const json_t *entry, const char *name, uint64_t *ret_bytes)
{
        const json_t *value = json_object_get(entry, name);

        if (json_is_string(value))
                return size_parse(json_string_value(value), ret_bytes) == 0;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
                return false;
        *ret_bytes = (uint64_t)json_integer_value(value);
        return true;
}

/* As gpumemd checks the entry. */
static int check_pool(const json_t *entry, size_t place, char reason[static LIMIT_FILE_REASON_MAX])
{
        static const struct {
                const char *name, *advice;
        } sizes[] = {
                {"min_bytes", "change both, with two --set"},
                {"warm_bytes", "change that in the file first"},
        };
        char size_text[SIZE_TEXT_MAX], max_text[SIZE_TEXT_MAX];
        uint64_t n_bytes, n_max_bytes;

        if (!find_size(entry, "max_bytes", &n_max_bytes))
                return 0;
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                if (!find_size(entry, sizes[i].name, &n_bytes) || n_bytes <= n_max_bytes)
                        continue;
                (void)snprintf(reason, LIMIT_FILE_REASON_MAX,
                               "pools[%zu] would have %s of %s, above its max_bytes of %s, and "
                               "gpumemd would not start; %s",
                               place, sizes[i].name, size_format(n_bytes, size_text),
                               size_format(n_max_bytes, max_text), sizes[i].advice);
                return -EINVAL;
        }
        return 0;
}

int limit_file_check(const struct json_t *root, char reason[static LIMIT_FILE_REASON_MAX])
{
        const json_t *list = json_object_get(root, "pools");
        int r = 0;

        for (size_t i = 0; i < json_array_size(list) && !r; i++)
                r = check_pool(json_array_get(list, i), i, reason);
        return r;
}

int limit_file_write(const char *path, const struct json_t *root)
{
        CLEANUP(freep)
        char *text = json_dumps(root, JSON_INDENT(2)), *whole = NULL;
        int n;

        if (!text)
                return -ENOMEM;
        n = asprintf(&whole, "%s\n", text);
        if (n < 0) {
                whole = NULL;
                return -ENOMEM;
        }
        return atomic_file_replace(path, whole, (size_t)n);
}
