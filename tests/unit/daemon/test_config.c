/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files, good and bad: the values read, and every error message. */
#include "daemon/config/config.h"
#include "daemon/server/core/pool_settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

#define TEXT_MAX 8192
#define OTHER    4321 /* a user, and a group */
#define TOP_KEYS                                                                           \
        "\"socket\", \"group\", \"cuda_library\", \"nvml_library\", \"canary\", \"log\", " \
        "\"user\", \"tenants\", \"pools\", \"limits\", \"each_user\", \"drain_seconds\""
#define POOL_KEYS                                                                                  \
        "\"device\", \"pinned\", \"max_bytes\", \"max_fraction\", \"min_bytes\", \"warm_bytes\", " \
        "\"keep_cached_bytes\", \"return_after_seconds\", \"keep_free_bytes\", \"backing\", "      \
        "\"ipc\""
#define SIZES "2MiB or more, less than 8EiB, in bytes or with a unit: \"12GiB\""

static char path[64];
static struct config config;
static char said[TEXT_MAX]; /* about the last loaded file */

static void add_sentence(void *argument, const char *sentence)
{
        char *text = argument;
        size_t length = strlen(text);

        (void)snprintf(text + length, TEXT_MAX - length, "%s\n", sentence);
}

static void make_file(void)
{
        int fd;

        (void)snprintf(path, sizeof(path), "/tmp/gpumemd-config-XXXXXX");
        fd = mkostemp(path, O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        closep(&fd);
}

static void remove_file(void)
{
        (void)unlink(path);
        config_deinit(&config);
}

static void write_bytes(const char *bytes, size_t n)
{
        FILE *file = fopen(path, "we");

        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
        ck_assert_int_eq(fclose(file), 0);
}

static int load_file(const char *file)
{
        struct config_report report = {.print = add_sentence, .argument = said};

        *said = '\0';
        config_deinit(&config);
        config = (struct config){.socket_path = NULL};
        return config_load(file, &report, &config);
}

/* `text` has ' in place of ". */
static int load(const char *text)
{
        char *bytes = strdup(text);

        ck_assert_ptr_nonnull(bytes);
        for (char *quote = bytes; (quote = strchr(quote, '\'')); quote++)
                *quote = '"';
        write_bytes(bytes, strlen(bytes));
        free(bytes);
        return load_file(path);
}

static void must_load(const char *text)
{
        int r = load(text);

        ck_assert_msg(r == 0, "%s", said);
        ck_assert_str_eq(said, "");
}

/* Each line of `said` begins with the file's name; `expected` has '@' for that. */
static void expect_said(const char *text, const char *expected)
{
        char whole[TEXT_MAX];
        size_t length = 0;

        for (; *expected; expected++) {
                if (*expected == '@')
                        length += (size_t)snprintf(whole + length, TEXT_MAX - length, "%s", path);
                else
                        whole[length++] = *expected;
        }
        whole[length] = '\0';
        ck_assert_msg(strcmp(whole, said) == 0, "for %s\nsaid     %sexpected %s", text, said,
                      whole);
}

static const struct {
        const char *text;
        const char *said;
} bad[] = {
        {"", "@:1:0: '[' or '{' expected near end of file\n"},
        {"{\n 'log': loud}", "@:2:12: invalid token near 'loud'\n"},
        {"{'log': 'info',\n 'log': 'info'}", "@:2:6: duplicate object key near '\"log\"'\n"},
        {"{} x", "@:1:4: end of file expected near 'x'\n"},
        {"[]", "@: invalid value [] (expected an object with " TOP_KEYS ")\n"},
        {"{'sockets': 1}", "@: sockets: unknown key (expected " TOP_KEYS ")\n"},
        /* Control characters do not reach a terminal, in any encoding; other characters do. */
        {"{'a\\u001b[31m\\n\\u007f\\u009bz\\u00e9': 1}",
         "@: a?[31m????z\u00e9: unknown key (expected " TOP_KEYS ")\n"},
        {"{'log': 'a\x7f'}",
         "@: log: invalid level \"a?\" (expected \"error\", \"warning\", \"info\" or \"debug\")\n"},
        {"{'log': \x01", "@:1:9: invalid token near '?'\n"},
        {"{'group': 'no such'}",
         "@: group: invalid group \"no such\" (expected a gid or the name of a group)\n"},
        {"{'group': 4294967295}",
         "@: group: invalid group 4294967295 (expected a gid or the name of a group)\n"},
        {"{'each_user': {'connections': 0}}",
         "@: each_user.connections: invalid number 0 (expected 1 to 1000000)\n"},
        {"{'each_user': {'blocks': 1}}",
         "@: each_user.blocks: unknown key (expected \"connections\", \"requests_per_second\")\n"},
        {"{'socket': 7}",
         "@: socket: invalid text 7 (expected a non-empty text in double quotes)\n"},
        {"{'cuda_library': ''}",
         "@: cuda_library: invalid text \"\" (expected a non-empty text in double quotes)\n"},
        {"{'canary': 'dead'}", "@: canary: invalid choice \"dead\" (expected \"on\" or \"off\")\n"},
        {"{'drain_seconds': 3601}",
         "@: drain_seconds: invalid number of seconds 3601 (expected 0 to 3600)\n"},
        {"{'drain_seconds': -1}",
         "@: drain_seconds: invalid number of seconds -1 (expected 0 to 3600)\n"},
        {"{'drain_seconds': 1.5}",
         "@: drain_seconds: invalid number of seconds 1.5 (expected 0 to 3600)\n"},
        {"{'canary': true}", "@: canary: invalid choice true (expected \"on\" or \"off\")\n"},
        {"{'tenants': 'gid'}",
         "@: tenants: invalid choice \"gid\" (expected \"container\", \"uid\" or \"client\")\n"},
        {"{'tenants': true}",
         "@: tenants: invalid choice true (expected \"container\", \"uid\" or \"client\")\n"},
        {"{'log': 'loud'}", "@: log: invalid level \"loud\" (expected \"error\", \"warning\", "
                            "\"info\" or \"debug\")\n"},
        {"{'pools': {}}", "@: pools: invalid list {} (expected objects in square brackets)\n"},
        {"{'pools': [3]}",
         "@: pools[0]: invalid value 3 (expected an object with " POOL_KEYS ")\n"},
        {"{'pools': [{'device': 0, 'max_bytes': '1GiB'}, {'pinned': 0, 'max_bytes': '12parsec'}]}",
         "@: pools[1].max_bytes: invalid size \"12parsec\" (expected " SIZES ")\n"},
        {"{'pools': [{'device': 0, 'max_bytes': -1}]}",
         "@: pools[0].max_bytes: invalid size -1 (expected " SIZES ")\n"},
        {"{'pools': [{'device': 0, 'max_bytes': 1e9}]}",
         "@: pools[0].max_bytes: invalid size 1000000000.0 (expected " SIZES ")\n"},
        {"{'pools': [{'device': 0, 'max_bytes': 1048576}]}",
         "@: pools[0].max_bytes: invalid size 1048576 (expected " SIZES ")\n"},
        {"{'pools': [{'device': 0, 'max_fraction': 1.5}]}",
         "@: pools[0].max_fraction: invalid fraction 1.5 (expected above 0, at most 1)\n"},
        {"{'pools': [{'device': 0, 'max_fraction': 0}]}",
         "@: pools[0].max_fraction: invalid fraction 0 (expected above 0, at most 1)\n"},
        {"{'pools': [{'max_fraction': 0.5}]}", "@: pools[0]: neither \"device\" nor \"pinned\" "
                                               "(expected either \"device\" or \"pinned\")\n"},
        {"{'pools': [{'device': 0, 'pinned': 0, 'max_fraction': 0.5}]}",
         "@: pools[0]: both \"device\" and \"pinned\" (expected either \"device\" or "
         "\"pinned\")\n"},
        {"{'pools': [{'device': 0}]}",
         "@: pools[0]: nothing is set (expected \"max_bytes\", \"max_fraction\" (the smaller one "
         "applies), \"min_bytes\", \"warm_bytes\", \"keep_cached_bytes\", "
         "\"return_after_seconds\", \"keep_free_bytes\", \"backing\" or \"ipc\")\n"},
        {"{'pools': [{'device': 'GPU-12', 'max_fraction': 1}]}",
         "@: pools[0].device: invalid device \"GPU-12\" (expected an index, a UUID as nvidia-smi "
         "-L prints it, or \"all\")\n"},
        {"{'pools': [{'pinned': -1, 'max_fraction': 1}]}",
         "@: pools[0].pinned: invalid node -1 (expected the number of a NUMA node, or \"all\")\n"},
        {"{'pools': [{'device': 3, 'max_fraction': 1}, {'pinned': 3, 'max_fraction': 1},  "
         "{'device': 3, 'max_bytes': '2MiB'}]}",
         "@: pools[2]: pools[0] sets this pool already\n"},
        {"{'pools': [{'device': 0, 'min_bytes': 'some'}]}",
         "@: pools[0].min_bytes: invalid size \"some\" (expected 0 or more, less than 8EiB, in "
         "bytes or with a "
         "unit: \"12GiB\")\n"},
        {"{'pools': [{'device': 0, 'warm_bytes': -1}]}",
         "@: pools[0].warm_bytes: invalid size -1 (expected 0 or more, less than 8EiB, in bytes or "
         "with a unit: "
         "\"12GiB\")\n"},
        {"{'pools': [{'device': 0, 'max_bytes': '1GiB', 'warm_bytes': '2GiB'}]}",
         "@: pools[0].warm_bytes: invalid size \"2GiB\" (expected at most this pool's "
         "max_bytes)\n"},
        {"{'pools': [{'pinned': 0, 'keep_cached_bytes': 'much'}]}",
         "@: pools[0].keep_cached_bytes: invalid size \"much\" (expected 0 or more, less than "
         "8EiB, in bytes or "
         "with a unit: \"12GiB\")\n"},
        {"{'pools': [{'pinned': 0, 'return_after_seconds': -1}]}",
         "@: pools[0].return_after_seconds: invalid number of seconds -1 (expected 0 to 31536000, "
         "one year)\n"},
        {"{'pools': [{'pinned': 0, 'return_after_seconds': 31536001}]}",
         "@: pools[0].return_after_seconds: invalid number of seconds 31536001 (expected 0 to "
         "31536000, one year)\n"},
        {"{'pools': [{'device': 0, 'keep_free_bytes': -1}]}",
         "@: pools[0].keep_free_bytes: invalid size -1 (expected 0 or more, less than 8EiB, in "
         "bytes or with a "
         "unit: \"12GiB\")\n"},
        {"{'pools': [{'pinned': 0, 'keep_free_bytes': '1GiB'}]}",
         "@: pools[0].keep_free_bytes: only allowed for device pools\n"},
        {"{'pools': [{'device': 0, 'max_bytes': '1GiB', 'min_bytes': '2GiB'}]}",
         "@: pools[0].min_bytes: invalid minimum \"2GiB\" (expected at most this pool's "
         "max_bytes)\n"},
        {"{'pools': [{'pinned': 0, 'backing': 'paper'}]}",
         "@: pools[0].backing: invalid backing \"paper\" (expected \"memfd\" or \"vmm\")\n"},
        {"{'pools': [{'device': 0, 'backing': 'vmm'}]}",
         "@: pools[0].backing: only allowed for pinned pools\n"},
        {"{'user': 7, 'pools': [{'device': 0, 'ipc': 'cuda'}]}",
         "@: pools[0].ipc: invalid way to hand out blocks \"cuda\" (expected \"fd\" or "
         "\"legacy\")\n"},
        {"{'user': 7, 'pools': [{'pinned': 0, 'ipc': 'legacy'}]}",
         "@: pools[0].ipc: only allowed for device pools\n"},
        {"{'pools': [{'device': 0, 'ipc': 'fd'}, {'device': 1, 'ipc': 'legacy'}]}",
         "@: pools[1].ipc: \"legacy\" requires \"user\" and \"tenants\": \"uid\": any user who "
         "learns a CUDA IPC handle can open the memory, so the pool may serve one user only\n"},
        {"{'user': 7, 'tenants': 'client', 'pools': [{'device': 1, 'ipc': 'legacy'}]}",
         "@: pools[0].ipc: \"legacy\" requires \"user\" and \"tenants\": \"uid\": any user who "
         "learns a CUDA IPC handle can open the memory, so the pool may serve one user only\n"},
        {"{'user': 'no such user'}",
         "@: user: invalid user \"no such user\" (expected a uid or the name of a user)\n"},
        {"{'limits': {'clients': {}}}",
         "@: limits.clients: unknown key (expected \"client\", \"tenant\", \"tenants\")\n"},
        {"{'limits': {'client': {'leases': 'many'}}}",
         "@: limits.client.leases: invalid number of leases \"many\" (expected 0 or more, or "
         "\"none\" for no limit)\n"},
        {"{'limits': {'tenant': {'device_bytes': null}}}",
         "@: limits.tenant.device_bytes: invalid size null (expected a size in bytes or with a "
         "unit: \"12GiB\", or \"none\" for no limit)\n"},
        {"{'limits': {'tenants': [{'leases': 4}]}}",
         "@: limits.tenants[0].uid: missing (expected a uid or the name of a user)\n"},
        {"{'limits': {'tenants': [{'uid': 5}]}}",
         "@: limits.tenants[0]: no limit is set (expected \"device_bytes\", \"pinned_bytes\" or "
         "\"leases\")\n"},
        {"{'limits': {'tenants': [{'uid': 'no such user', 'leases': 1}]}}",
         "@: limits.tenants[0].uid: invalid user \"no such user\" (expected a uid or the name of a "
         "user)\n"},
        {"{'limits': {'tenants': [{'uid': 4294967295, 'leases': 1}]}}",
         "@: limits.tenants[0].uid: invalid user 4294967295 (expected a uid or the name of a "
         "user)\n"},
        {"{'limits': {'tenants': [{'uid': 0, 'leases': 1}, {'uid': 'root', 'leases': 1}]}}",
         "@: limits.tenants[1].uid: uid 0 has limits in an earlier entry already\n"},
        /* Every error is reported, not only the first. */
        {"{'log': 1, 'pools': [{'device': 0, 'max_bytes': 1}, {'x': 1}], 'y': 2}",
         "@: y: unknown key (expected " TOP_KEYS ")"
         "\n@: log: invalid level 1 (expected \"error\", \"warning\", \"info\" or \"debug\")\n@: "
         "pools[0].max_bytes: invalid size 1 (expected " SIZES ")"
         "\n@: pools[1].x: unknown key (expected " POOL_KEYS ")"
         "\n@: pools[1]: neither \"device\" nor \"pinned\" (expected either \"device\" or "
         "\"pinned\")\n@: pools[1]: nothing is set (expected \"max_bytes\", \"max_fraction\" (the "
         "smaller one applies), \"min_bytes\", \"warm_bytes\", \"keep_cached_bytes\", "
         "\"return_after_seconds\", \"keep_free_bytes\", \"backing\" or \"ipc\")\n"},
};

TEST(what_is_wrong_is_said_exactly, .to = ARRAY_SIZE(bad))
{
        ck_assert_int_eq(load(bad[_i].text), -EINVAL);
        expect_said(bad[_i].text, bad[_i].said);
        ck_assert_ptr_null(config.settings.limits);
}

TEST(everything_is_optional)
{
        must_load("{}");
        ck_assert_ptr_null(config.socket_path);
        ck_assert(config.group == SOCKET_FILE_OWN_GROUP);
        ck_assert_ptr_null(config.cuda_library);
        ck_assert(!config.says_log_level);
        ck_assert_uint_eq(config.settings.n_rules, 0);
        ck_assert_uint_eq(config.settings.n_drain_seconds, 0);
        ck_assert_ptr_null(config.settings.limits);
}

TEST(texts_are_taken)
{
        must_load("{'socket': '/s', 'group': 'root', 'cuda_library': 'l.so', 'nvml_library': "
                  "'n.so', 'canary': 'off', 'drain_seconds': 3600, 'log': 'warning', 'tenants': "
                  "'client', 'pools': [], 'limits': {}}");
        ck_assert_str_eq(config.socket_path, "/s");
        ck_assert_uint_eq(config.group, 0);
        ck_assert_str_eq(config.cuda_library, "l.so");
        ck_assert_str_eq(config.nvml_library, "n.so");
        ck_assert_int_eq(config.canary, CANARY_OFF);
        ck_assert_uint_eq(config.settings.n_drain_seconds, 3600);
        ck_assert(config.says_log_level);
        ck_assert_int_eq(config.log_level, LOG_WARNING);
        ck_assert_int_eq(config.settings.tenancy, TENANCY_OF_CLIENTS);
}

static uint64_t max_of(uint32_t kind, uint32_t place, uint8_t uuid)
{
        struct pool_row row = {.kind = kind, .place = place, .n_capacity_bytes = GIB};

        memset(row.uuid, uuid, sizeof(row.uuid));
        return pool_settings_max(&config.settings, &row);
}

TEST(the_nearest_rule_counts)
{
        must_load("{'pools': [{'device': 1, 'max_bytes': 104857601},             {'device': 'all', "
                  "'max_fraction': 0.5},             {'device': "
                  "'GPU-ABababab-abab-abab-abab-abababababab',              'max_bytes': '12 "
                  "MiB'},             {'device': 2, 'max_bytes': '1TiB'},             {'device': "
                  "3, 'max_bytes': '300MiB', 'max_fraction': 0.25},             {'pinned': 1, "
                  "'max_fraction': 1}]}");
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 0, 0), 512 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 1, 0), 100 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 0, 0xab), 12 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 2, 0), GIB);
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 3, 0), 256 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_PINNED, 0, 0), 256 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_PINNED, 1, 0), GIB);
        must_load("{'pools': [{'device': 'MIG-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd', 'max_bytes': "
                  "'12 MiB'}]}");
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 0, 0xcd), 12 * MIB);
        /* The command line takes precedence over all rules. */
        config.settings.n_device_bytes = 40 * MIB;
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 1, 0), 40 * MIB);
}

static enum pinned_backing backing_of(uint32_t node)
{
        struct pool_row row = {.kind = GPUMEM_PINNED, .place = node, .n_capacity_bytes = GIB};

        return pool_settings_backing(&config.settings, &row);
}

static enum device_ipc ipc_of(uint32_t device)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .place = device, .n_capacity_bytes = GIB};

        return pool_settings_ipc(&config.settings, &row);
}

TEST(blocks_are_handed_out_as_is_said)
{
        must_load("{'user': 'root', 'tenants': 'uid', 'pools': [{'device': 'all', 'ipc': "
                  "'legacy'},             {'device': 1, 'max_fraction': 0.5},             "
                  "{'device': 2, 'ipc': 'fd'}]}");
        ck_assert(config.settings.says_user);
        ck_assert_uint_eq(config.settings.user, 0);
        ck_assert_int_eq(ipc_of(0), IPC_LEGACY);
        ck_assert_int_eq(ipc_of(1), IPC_LEGACY);
        ck_assert_int_eq(ipc_of(2), IPC_FD);
        must_load("{}");
        ck_assert(!config.settings.says_user);
        ck_assert_int_eq(ipc_of(0), IPC_FD);
}

/* A rule leaves values that it does not set to the rule for each node. */
TEST(backing_and_limit_are_said_apart)
{
        must_load("{'pools': [{'pinned': 'all', 'backing': 'vmm'},             {'pinned': 1, "
                  "'max_fraction': 0.5},             {'pinned': 2, 'backing': 'memfd', "
                  "'max_bytes': '64MiB'}]}");
        ck_assert_int_eq(backing_of(0), PINNED_VMM);
        ck_assert_int_eq(backing_of(1), PINNED_VMM);
        ck_assert_int_eq(backing_of(2), PINNED_MEMFD);
        ck_assert_uint_eq(max_of(GPUMEM_PINNED, 0, 0), 256 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_PINNED, 1, 0), 512 * MIB);
        ck_assert_uint_eq(max_of(GPUMEM_PINNED, 2, 0), 64 * MIB);
        config.settings.pinned_backing = PINNED_MEMFD;
        ck_assert_int_eq(backing_of(0), PINNED_MEMFD);
        must_load("{}");
        ck_assert_int_eq(backing_of(0), PINNED_MEMFD);
}

static uint64_t min_of(uint32_t kind, uint32_t place)
{
        struct pool_row row = {.kind = kind, .place = place, .n_capacity_bytes = GIB};

        return pool_settings_min(&config.settings, &row);
}

/* The default is 0; one pool can have 0 although the others have a minimum. */
TEST(minima_are_taken)
{
        must_load("{'pools': [{'device': 'all', 'min_bytes': '1GiB'},             {'device': 1, "
                  "'min_bytes': 0},             {'device': 2, 'max_fraction': 0.5}]}");
        ck_assert_uint_eq(min_of(GPUMEM_DEVICE, 0), GIB);
        ck_assert_uint_eq(min_of(GPUMEM_DEVICE, 1), 0);
        ck_assert_uint_eq(min_of(GPUMEM_DEVICE, 2), GIB);
        ck_assert_uint_eq(min_of(GPUMEM_PINNED, 0), 0);
        ck_assert_uint_eq(max_of(GPUMEM_DEVICE, 0, 0), GIB);
}

#define A_MINUTE UINT64_C(60000000000)

static void expect_stock(uint32_t place, uint64_t warm_bytes, uint64_t keep_bytes,
                         uint64_t return_after_ns)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .place = place, .n_capacity_bytes = GIB};
        struct pool_stock stock = pool_settings_stock(&config.settings, &row);

        ck_assert_uint_eq(stock.warm_bytes, warm_bytes);
        ck_assert_uint_eq(stock.keep_bytes, keep_bytes);
        ck_assert_uint_eq(stock.return_after_ns, return_after_ns);
}

/* By default nothing is prewarmed, and nothing unused is kept for longer than a minute. */
TEST(stocks_are_taken)
{
        must_load("{'pools': [{'device': 0, 'warm_bytes': '1GiB'},             {'device': 1, "
                  "'keep_cached_bytes': '2MiB'},             {'device': 2, 'return_after_seconds': "
                  "3},             {'device': 3, 'warm_bytes': '1GiB',              "
                  "'return_after_seconds': 31536000},             {'device': 4, 'warm_bytes': "
                  "'1GiB', 'keep_cached_bytes': 0}]}");
        expect_stock(0, GIB, GIB, A_MINUTE);
        expect_stock(1, 0, 2 * MIB, A_MINUTE);
        expect_stock(2, 0, 0, UINT64_C(3000000000));
        expect_stock(3, GIB, GIB, UINT64_C(31536000000000000));
        expect_stock(4, GIB, 0, A_MINUTE);
        expect_stock(5, 0, 0, A_MINUTE);
        must_load("{'pools': [{'device': 'all', 'warm_bytes': '1GiB'},             {'device': 0, "
                  "'warm_bytes': 0}]}");
        expect_stock(0, 0, 0, A_MINUTE);
        expect_stock(1, GIB, GIB, A_MINUTE);
}

static uint64_t free_of(uint32_t place)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .place = place, .n_capacity_bytes = GIB};

        return pool_settings_stock(&config.settings, &row).keep_free_bytes;
}

TEST(what_is_kept_free_is_taken)
{
        must_load("{'pools': [{'device': 'all', 'keep_free_bytes': '3GiB'},"
                  " {'device': 1, 'keep_free_bytes': 0}, {'device': 2, 'min_bytes': 0}]}");
        ck_assert_uint_eq(free_of(0), 3 * GIB);
        ck_assert_uint_eq(free_of(1), 0);
        ck_assert_uint_eq(free_of(2), 3 * GIB);
        must_load("{}");
        ck_assert_uint_eq(free_of(0), 0);
}

TEST(limits_are_taken)
{
        must_load("{'limits': {'client': {'device_bytes': '1.5GiB', 'leases': 7},              "
                  "'tenant': {'pinned_bytes': 0, 'device_bytes': 4096},              'tenants': "
                  "[{'uid': 'root', 'device_bytes': 'none'},                            {'uid': 7, "
                  "'leases': 3}]}}");
        const struct limits *table = config.settings.limits;

        ck_assert_uint_eq(table->client.max[LIMIT_DEVICE_BYTES], 1536 * MIB);
        ck_assert_uint_eq(table->client.max[LIMIT_PINNED_BYTES], LIMIT_NONE);
        ck_assert_uint_eq(table->client.max[LIMIT_LEASES], 7);
        ck_assert_uint_eq(limits_tenant_max(table, 0, LIMIT_DEVICE_BYTES), LIMIT_NONE);
        ck_assert_uint_eq(limits_tenant_max(table, 0, LIMIT_PINNED_BYTES), 0);
        ck_assert_uint_eq(limits_tenant_max(table, 7, LIMIT_DEVICE_BYTES), 4096);
        ck_assert_uint_eq(limits_tenant_max(table, 7, LIMIT_LEASES), 3);
        ck_assert_uint_eq(limits_tenant_max(table, 8, LIMIT_LEASES), LIMIT_NONE);
}

static void expect_unreadable(const char *file, int wanted, const char *what)
{
        char expected[256];

        ck_assert_int_eq(load_file(file), wanted);
        (void)snprintf(expected, sizeof(expected), "%s: %s\n", file, what);
        ck_assert_str_eq(said, expected);
}

TEST(files_that_are_none)
{
        expect_unreadable("/nonexistent/conf", -ENOENT, "No such file or directory");
        expect_unreadable("/tmp", -EINVAL, "not a regular file");
        remove_file();
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        expect_unreadable(path, -EINVAL, "not a regular file");
}

static void expect_refused(const char *who)
{
        ck_assert_int_eq(load_file(path), -EPERM);
        ck_assert_msg(strstr(said, who), "\"%s\" is not in: %s", who, said);
}

TEST(a_file_that_others_may_write_to_is_refused)
{
        write_bytes("{}", 2);
        ck_assert_int_eq(chmod(path, 0646), 0);
        expect_refused("every user may write to it (mode 0646)");
        ck_assert_int_eq(chmod(path, 0664), 0);
        ck_assert_int_eq(load_file(path), 0);
        if (geteuid())
                return;
        ck_assert_int_eq(chown(path, 0, OTHER), 0);
        expect_refused("group 4321 may write to it (mode 0664)");
        ck_assert_int_eq(chmod(path, 0644), 0);
        ck_assert_int_eq(load_file(path), 0);
        ck_assert_int_eq(chown(path, OTHER, 0), 0);
        expect_refused("uid 4321 owns it");
        ck_assert_int_eq(seteuid(OTHER), 0);
        ck_assert_int_eq(load_file(path), 0);
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_int_eq(chown(path, 0, 0), 0);
}

TEST(a_mebibyte_is_the_most)
{
        char *bytes = malloc(MIB + 1);

        ck_assert_ptr_nonnull(bytes);
        memset(bytes, ' ', MIB + 1);
        bytes[0] = '{';
        bytes[MIB - 1] = '}';
        write_bytes(bytes, MIB);
        ck_assert_int_eq(load_file(path), 0);
        write_bytes(bytes, MIB + 1);
        free(bytes);
        expect_unreadable(path, -EINVAL, "larger than 1 MiB, the maximum");
}

TEST(depth_is_bounded)
{
        char text[5000];

        memset(text, '[', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        ck_assert_int_eq(load(text), -EINVAL);
        ck_assert_ptr_nonnull(strstr(said, "maximum parsing depth reached"));
}

TESTS_MAIN("config", .start = make_file, .stop = remove_file)
