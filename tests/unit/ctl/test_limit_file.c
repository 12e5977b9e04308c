/* SPDX-License-Identifier: Apache-2.0 */
/* What gpumemctl limits --save makes of a configuration file. */
#include "ctl/commands/limit_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

static char path[] = "/tmp/gpumem-limits-XXXXXX";
static char reason[LIMIT_FILE_REASON_MAX];

static struct pool_row rows[] = {
        {.id = 3, .kind = GPUMEM_DEVICE, .place = 1, .uuid = {0xab}},
        {.id = 4, .kind = GPUMEM_PINNED, .place = 0},
};

static const struct pool_stats pools = {.n = ARRAY_SIZE(rows), .pools = rows};

static void put(const char *text)
{
        FILE *file = fopen(path, "w");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

static void start(void)
{
        int fd;

        (void)strcpy(path, "/tmp/gpumem-limits-XXXXXX");
        fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(close(fd), 0);
}

static void stop(void)
{
        (void)unlink(path);
}

/* What comes of a file with one change. */
static void check(const char *text, struct limit_change change, const char *wanted)
{
        json_t *root, *read;
        char *found;

        put(text);
        ck_assert_int_eq(limit_file_read(path, reason, &root), 0);
        ck_assert_int_eq(limit_file_change(root, &change, &pools), 0);
        ck_assert_int_eq(limit_file_write(path, root), 0);
        ck_assert_int_eq(limit_file_read(path, reason, &read), 0);
        found = json_dumps(read, JSON_COMPACT);
        ck_assert_str_eq(found, wanted);
        free(found);
        json_decref(read);
        json_decref(root);
}

TEST(a_file_that_is_not_there_is_empty)
{
        json_t *root;

        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(limit_file_read(path, reason, &root), 0);
        ck_assert_uint_eq(json_object_size(root), 0);
        json_decref(root);
}

/* Half-written, doubled, and of another kind. */
static const struct {
        const char *text, *reason;
} wrong[] = {
        {"", ":1:0: "},
        {"{\n \"log\": }", ":2:"},
        {"{\"limits\": {\"client\": {\"leases\": 9}", ":1:"},
        {"{\"log\": \"info\"} x", ":1:"},
        {"{\"log\": \"info\", \"log\": \"debug\"}", "duplicate"},
        {"[1]", ": not an object"},
};

TEST(a_wrong_file_is_refused_with_its_place, .to = ARRAY_SIZE(wrong))
{
        json_t *root = NULL;

        put(wrong[_i].text);
        ck_assert_int_lt(limit_file_read(path, reason, &root), 0);
        ck_assert_ptr_null(root);
        ck_assert_msg(strstr(reason, path) && strstr(reason, wrong[_i].reason), "%s", reason);
}

TEST(what_cannot_be_read_is_refused)
{
        json_t *root = NULL;

        ck_assert_int_lt(limit_file_read("/tmp", reason, &root), 0);
        ck_assert_str_eq(reason, "/tmp: not a regular file");
        if (!geteuid()) {
                ck_assert_int_eq(chmod(path, 0600), 0);
                ck_assert_int_eq(seteuid(65534), 0);
                ck_assert_int_lt(limit_file_read(path, reason, &root), 0);
                ck_assert_int_eq(seteuid(0), 0);
        }
        ck_assert_ptr_null(root);
}

TEST(all_else_stays)
{
        check("{\"log\":\"info\",\"limits\":{\"tenant\":{\"leases\":3}}}",
              (struct limit_change){PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH,
                                    PROTO_LIMIT_DEVICE_BYTES, 1536 * MIB},
              "{\"log\":\"info\",\"limits\":{\"tenant\":{\"leases\":3},\"client\":{\"device_"
              "bytes\":"
              "\"1536MiB\"}}}");
}

TEST(a_pool_is_found_by_what_names_it)
{
        const struct limit_change max = {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_RESERVED_BYTES, GIB};

        check("{\"pools\":[{\"device\":\"all\",\"min_bytes\":1},{\"device\":1,\"max_fraction\":0.5}"
              "]}",
              max,
              "{\"pools\":[{\"device\":\"all\",\"min_bytes\":1},{\"device\":1,\"max_bytes\":"
              "\"1GiB\"}]}");
        check("{\"pools\":[{\"device\":\"GPU-AB000000-0000-0000-0000-000000000000\"}]}", max,
              "{\"pools\":[{\"device\":\"GPU-AB000000-0000-0000-0000-000000000000\",\"max_bytes\":"
              "\"1GiB\"}]}");
        check("{\"pools\":[{\"pinned\":1}]}", max,
              "{\"pools\":[{\"pinned\":1},{\"device\":1,\"max_bytes\":\"1GiB\"}]}");
        check("{}", (struct limit_change){PROTO_LIMIT_OF_POOL, 4, PROTO_LIMIT_RETURN_SECONDS, 90},
              "{\"pools\":[{\"pinned\":0,\"return_after_seconds\":90}]}");
        check("{}",
              (struct limit_change){PROTO_LIMIT_OF_POOL, 4, PROTO_LIMIT_RESERVED_BYTES,
                                    PROTO_LIMIT_NONE},
              "{\"pools\":[{\"pinned\":0,\"max_fraction\":1}]}");
}

TEST(a_users_last_limit_takes_its_entry_along)
{
        check("{\"limits\":{\"tenants\":[{\"uid\":77,\"leases\":3},{\"uid\":\"root\",\"leases\":4}]"
              "}}",
              (struct limit_change){PROTO_LIMIT_OF_TENANT, 77, PROTO_LIMIT_LEASES,
                                    PROTO_LIMIT_INHERIT},
              "{\"limits\":{\"tenants\":[{\"uid\":\"root\",\"leases\":4}]}}");
        check("{\"limits\":{\"tenants\":[{\"uid\":\"root\",\"leases\":4}]}}",
              (struct limit_change){PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES, PROTO_LIMIT_NONE},
              "{\"limits\":{\"tenants\":[{\"uid\":\"root\",\"leases\":\"none\"}]}}");
}

static const struct {
        const char *text;
        struct limit_change change;
        int r;
} impossible[] = {
        {"{\"limits\":7}",
         {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, PROTO_LIMIT_LEASES, 1},
         -EINVAL},
        {"{\"limits\":{\"client\":[]}}",
         {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, PROTO_LIMIT_LEASES, 1},
         -EINVAL},
        {"{\"limits\":{\"tenants\":{}}}",
         {PROTO_LIMIT_OF_TENANT, 77, PROTO_LIMIT_LEASES, 1},
         -EINVAL},
        {"{\"pools\":{}}", {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_RESERVED_BYTES, 1}, -EINVAL},
        {"{}", {PROTO_LIMIT_OF_POOL, 99, PROTO_LIMIT_RESERVED_BYTES, 1}, -ENODEV},
};

TEST(what_cannot_be_changed_is_refused, .to = ARRAY_SIZE(impossible))
{
        json_t *root;

        put(impossible[_i].text);
        ck_assert_int_eq(limit_file_read(path, reason, &root), 0);
        ck_assert_int_eq(limit_file_change(root, &impossible[_i].change, &pools), impossible[_i].r);
        json_decref(root);
}

static const struct {
        const char *text;
        struct limit_change change;
        const char *reason; /* NULL: gpumemd takes it */
} refused[] = {
        {"{\"pools\":[{\"device\":1,\"max_bytes\":\"8GiB\",\"min_bytes\":\"4GiB\"}]}",
         {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_RESERVED_BYTES, 2 * GIB},
         "pools[0] would have min_bytes of 4.00 GiB, above its max_bytes of 2.00 GiB"},
        {"{\"pools\":[{\"device\":1,\"max_bytes\":\"8GiB\",\"min_bytes\":\"4GiB\"}]}",
         {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_RESERVED_BYTES, 4 * GIB},
         NULL},
        {"{\"pools\":[{\"device\":1,\"max_bytes\":\"8GiB\",\"min_bytes\":\"4GiB\"}]}",
         {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_RESERVED_BYTES, PROTO_LIMIT_NONE},
         NULL},
        {"{\"pools\":[{\"device\":\"all\"},{\"device\":1,\"max_bytes\":1048576}]}",
         {PROTO_LIMIT_OF_POOL, 3, PROTO_LIMIT_MIN_BYTES, 2 * MIB},
         "pools[1] would have min_bytes of 2.00 MiB, above its max_bytes of 1.00 MiB"},
        {"{\"pools\":[{\"pinned\":0,\"warm_bytes\":\"3GiB\"}]}",
         {PROTO_LIMIT_OF_POOL, 4, PROTO_LIMIT_RESERVED_BYTES, GIB},
         "warm_bytes of 3.00 GiB, above its max_bytes of 1.00 GiB"},
        {"{\"pools\":[{\"pinned\":0,\"warm_bytes\":-1,\"min_bytes\":\"much\"}]}",
         {PROTO_LIMIT_OF_POOL, 4, PROTO_LIMIT_RESERVED_BYTES, GIB},
         NULL},
        {"{}", {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, PROTO_LIMIT_LEASES, 1}, NULL},
};

/* The daemon allows a max_bytes below the min_bytes that there is; its configuration may not have one. */
TEST(what_gpumemd_would_refuse_is_refused_before, .to = ARRAY_SIZE(refused))
{
        json_t *root;

        put(refused[_i].text);
        ck_assert_int_eq(limit_file_read(path, reason, &root), 0);
        ck_assert_int_eq(limit_file_change(root, &refused[_i].change, &pools), 0);
        ck_assert_int_eq(limit_file_check(root, reason), refused[_i].reason ? -EINVAL : 0);
        if (refused[_i].reason)
                ck_assert_msg(strstr(reason, refused[_i].reason), "%s", reason);
        json_decref(root);
}

TEST(a_link_is_not_written)
{
        char link_path[64];
        json_t *root = json_object();

        put("{}");
        (void)snprintf(link_path, sizeof(link_path), "%s.link", path);
        ck_assert_int_eq(symlink(path, link_path), 0);
        ck_assert_int_eq(limit_file_write(link_path, root), -EEXIST);
        ck_assert_int_eq(unlink(link_path), 0);
        json_decref(root);
}

TESTS_MAIN("limit_file", .start = start, .stop = stop)
