/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: its text as it comes, or one that is made of what configurations are made of. What
 * is taken is put to use, and what is refused is said in sentences that a terminal may show. */
#include <errno.h>
#include <pwd.h>

#include "base/err.h"
#include "daemon/config/config.h"
#include "daemon/policy/drain.h"
#include "daemon/server/core/pool_settings.h"
#include "gpumem.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_name[] = "config";

#define TEXT_MAX 4096
#define DEPTH    4

/* The names of users are the machine's, and take long to look up. */
struct passwd *__wrap_getpwnam(const char *name);
struct passwd *__wrap_getpwnam(const char *name)
{
        static struct passwd root = {.pw_uid = 0};

        return strcmp(name, "root") == 0 ? &root : NULL;
}

static const char *const words[] = {
        "socket",
        "cuda_library",
        "nvml_library",
        "canary",
        "drain_seconds",
        "log",
        "user",
        "pools",
        "limits",
        "device",
        "pinned",
        "max_bytes",
        "min_bytes",
        "max_fraction",
        "backing",
        "warm_bytes",
        "keep_cached_bytes",
        "return_after_seconds",
        "keep_free_bytes",
        "ipc",
        "client",
        "tenant",
        "tenants",
        "uid",
        "device_bytes",
        "pinned_bytes",
        "leases",
        "all",
        "none",
        "root",
        "on",
        "off",
        "memfd",
        "vmm",
        "fd",
        "legacy",
        "info",
        "/run/a",
        "12GiB",
        "2MiB",
        "1.5 TiB",
        "16777216TiB",
        "GPU-00112233-4455-6677-8899-aabbccddeeff",
        "\\u0000",
        "\\u0085",
        "",
        "-1",
};

static const char *const numbers[] = {
        "0",    "1",   "-1",    "2097152", "4294967295", "4294967296", "9223372036854775807",
        "0.95", "1.0", "1e308", "-0.0",    "1e-320",     "true",       "null",
};

/* As configurations nest: what each object may hold comes first in its list, ends with NULL. */
static const char *const top_keys[] = {"socket", "cuda_library", "nvml_library",
                                       "canary", "log",          "user",
                                       "pools",  "limits",       "drain_seconds"};
static const char *const pool_keys[] = {
        "device",         "pinned", "max_bytes",  "max_fraction",      "min_bytes",
        "backing",        "ipc",    "warm_bytes", "keep_cached_bytes", "return_after_seconds",
        "keep_free_bytes"};
static const char *const limit_keys[] = {"client", "tenant", "tenants"};
static const char *const tenant_keys[] = {"uid", "device_bytes", "pinned_bytes", "leases"};

struct text {
        struct input *input;
        char bytes[TEXT_MAX];
        size_t n;
};

static void put(struct text *text, const char *bytes)
{
        size_t n = strlen(bytes);

        if (text->n + n < TEXT_MAX) {
                memcpy(text->bytes + text->n, bytes, n);
                text->n += n;
        }
}

static void put_word(struct text *text)
{
        put(text, "\"");
        put(text, words[input_below(text->input, ARRAY_SIZE(words))]);
        put(text, "\"");
}

static void put_value(struct text *text, unsigned depth);

static void put_members(struct text *text, const char *const *keys, unsigned n_keys, unsigned depth)
{
        unsigned n = input_below(text->input, 6);

        put(text, "{");
        for (unsigned i = 0; i < n && text->n < TEXT_MAX / 2; i++) {
                unsigned which = input_byte(text->input);

                put(text, i ? "," : "");
                if (which % 16 == 0) {
                        put_word(text);
                } else {
                        put(text, "\"");
                        put(text, keys[which % n_keys]);
                        put(text, "\"");
                }
                put(text, ":");
                put_value(text, depth);
        }
        put(text, "}");
}

static void put_object(struct text *text, unsigned depth)
{
        switch (input_below(text->input, 4)) {
        case 0:
                put_members(text, top_keys, ARRAY_SIZE(top_keys), depth);
                break;
        case 1:
                put_members(text, pool_keys, ARRAY_SIZE(pool_keys), depth);
                break;
        case 2:
                put_members(text, limit_keys, ARRAY_SIZE(limit_keys), depth);
                break;
        default:
                put_members(text, tenant_keys, ARRAY_SIZE(tenant_keys), depth);
                break;
        }
}

static void put_list(struct text *text, unsigned depth)
{
        unsigned n = input_below(text->input, 4);

        put(text, "[");
        for (unsigned i = 0; i < n; i++) {
                put(text, i ? "," : "");
                put_value(text, depth);
        }
        put(text, "]");
}

static void put_value(struct text *text, unsigned depth)
{
        switch (input_below(text->input, depth ? 6 : 3)) {
        case 0:
                put(text, numbers[input_below(text->input, ARRAY_SIZE(numbers))]);
                break;
        case 1:
        case 2:
                put_word(text);
                break;
        case 3:
                put_list(text, depth - 1);
                break;
        default:
                put_object(text, depth - 1);
                break;
        }
}

static bool is_raw(struct input *input)
{
        return input_byte(input) < 0x40;
}

/* A line that a terminal may show. */
static void listen(void *argument, const char *sentence)
{
        unsigned *n_sentences = argument;

        FUZZ_EXPECT(*sentence);
        for (const unsigned char *byte = (const unsigned char *)sentence; *byte; byte++) {
                FUZZ_EXPECT(*byte >= 0x20 && *byte != 0x7f);
                FUZZ_EXPECT(byte[0] != 0xc2 || byte[1] < 0x80 || byte[1] >= 0xa0);
        }
        (*n_sentences)++;
}

/* As a server does. */
static void use(const struct settings *settings)
{
        for (uint32_t i = 0; i < 4; i++) {
                struct pool_row row = {.kind = i % 2 ? GPUMEM_PINNED : GPUMEM_DEVICE,
                                       .place = i / 2,
                                       .name = "a pool"};
                struct pool_stock stock;
                uint64_t max_bytes;

                row.n_capacity_bytes = UINT64_C(96) << 20;
                max_bytes = pool_settings_max(settings, &row);
                FUZZ_EXPECT(max_bytes >= SETTINGS_POOL_BYTES_MIN &&
                            max_bytes <= row.n_capacity_bytes);
                FUZZ_EXPECT(max_bytes % SETTINGS_POOL_BYTES_MIN == 0);
                FUZZ_EXPECT(pool_settings_min(settings, &row) <= UINT64_MAX / 2);
                stock = pool_settings_stock(settings, &row);
                FUZZ_EXPECT(stock.warm_bytes <= UINT64_MAX / 2 &&
                            stock.keep_bytes <= UINT64_MAX / 2);
                FUZZ_EXPECT(stock.return_after_ns <=
                            SETTINGS_RETURN_SECONDS_MAX * UINT64_C(1000000000));
                FUZZ_EXPECT(pool_settings_backing(settings, &row) != PINNED_NOT_SAID);
                FUZZ_EXPECT(pool_settings_ipc(settings, &row) != IPC_NOT_SAID);
                FUZZ_EXPECT(pool_settings_ipc(settings, &row) != IPC_LEGACY ||
                            (settings->says_user && settings->tenancy == TENANCY_OF_USERS));
        }
}

static int parse(const char *bytes, size_t n_bytes, unsigned *n_sentences)
{
        const struct config_report report = {listen, n_sentences};
        struct config config;
        int r = config_parse("a file", bytes, n_bytes, &report, &config);

        FUZZ_EXPECT(r == 0 || r == -EINVAL);
        FUZZ_EXPECT((r == 0) == (*n_sentences == 0));
        if (r)
                return r;
        FUZZ_EXPECT(config.settings.n_drain_seconds <= DRAIN_SECONDS_MAX);
        FUZZ_EXPECT(!config.socket_path || *config.socket_path == '/');
        use(&config.settings);
        config_deinit(&config);
        return 0;
}

/* Taken: it is JSON, of which the decoder of JSON has made values. */
enum fuzz_outcome fuzz_run(const uint8_t *bytes, size_t n_bytes)
{
        struct input input = {bytes, n_bytes};
        struct text text = {.input = &input, .n = 0};
        unsigned n_sentences = 0;

        log_setup("fuzz", LOG_ERROR);
        if (is_raw(&input))
                return parse((const char *)input.bytes, input.n, &n_sentences) ? FUZZ_REFUSED
                                                                               : FUZZ_TAKEN;
        put_members(&text, top_keys, ARRAY_SIZE(top_keys), DEPTH);
        (void)parse(text.bytes, text.n, &n_sentences);
        return FUZZ_TAKEN;
}
