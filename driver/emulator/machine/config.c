/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/config.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>

#include "base/size.h"

/* A tmpfs smaller than this, as containers have it, ends in SIGBUS when it fills up. */
#define ROOM_MIN (UINT64_C(1) << 30)

struct option {
        const char *name;
        enum { OPTION_NUMBER, OPTION_SIZE, OPTION_PATH, OPTION_FAULT } type;
        size_t offset;
        uint64_t min, max;
        const char *allowed;
};

#define OPTION_AT(member) offsetof(struct config, member)

/* n_devices is an unsigned, the only number that has not 64 bits; option_store handles it. */
static const struct option options[] = {
        {"devices", OPTION_NUMBER, OPTION_AT(n_devices), 1, CONFIG_DEVICES_MAX,
         "a number, 1 to 16"},
        {"bytes", OPTION_SIZE, OPTION_AT(device_bytes), 2 * MIB, 4 * TIB,
         "a size such as 16GiB, a multiple of 2MiB, 2MiB to 4TiB"},
        {"dir", OPTION_PATH, OPTION_AT(directory), 0, 0, "an absolute path"},
        {"delay_us", OPTION_NUMBER, OPTION_AT(call_delay_us), 0, 10000000,
         "microseconds, 0 to 10000000"},
        {"copy_delay_us", OPTION_NUMBER, OPTION_AT(copy_delay_us), 0, 10000000,
         "microseconds, 0 to 10000000"},
        {"reclaim_ms", OPTION_NUMBER, OPTION_AT(reclaim_ms), 0, 3600000,
         "milliseconds, 0 to 3600000"},
        {"ctx_bytes", OPTION_SIZE, OPTION_AT(context_bytes), 0, 4 * TIB,
         "a size such as 512MiB, a multiple of 2MiB, up to 4TiB"},
        {"dirty", OPTION_NUMBER, OPTION_AT(is_dirty), 0, 1, "0 or 1"},
        {"peers", OPTION_NUMBER, OPTION_AT(n_peers), 1, CONFIG_DEVICES_MAX, "a number, 1 to 16"},
        {"rdma", OPTION_NUMBER, OPTION_AT(has_rdma), 0, 1, "0 or 1"},
        {"mig", OPTION_NUMBER, OPTION_AT(is_mig), 0, 1, "0 or 1"},
        {"fault_file", OPTION_NUMBER, OPTION_AT(has_fault_file), 0, 1, "0 or 1"},
        {"fail", OPTION_FAULT, 0, 0, 0, FAULT_FAIL_ALLOWED},
        {"delay", OPTION_FAULT, 0, 0, 0, FAULT_DELAY_ALLOWED},
        {"hang", OPTION_FAULT, 0, 0, 0, FAULT_HANG_ALLOWED},
        {"lost", OPTION_FAULT, 0, 0, 0, FAULT_LOST_ALLOWED},
        {"seed", OPTION_FAULT, 0, 0, 0, FAULT_SEED_ALLOWED},
};

int config_refuse(char reason[CONFIG_REASON_MAX], const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        /* It has been started; the checker loses sight of it in some callers only.
         * NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
        (void)vsnprintf(reason, CONFIG_REASON_MAX, format, arguments);
        va_end(arguments);
        return -EINVAL;
}

static const struct option *option_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                if (strcmp(options[i].name, name) == 0)
                        return &options[i];
        return NULL;
}

static int number_parse(const char *text, uint64_t *ret_number)
{
        uint64_t number;
        char *end;

        if (*text == '\0' || strspn(text, "0123456789") != strlen(text))
                return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (errno)
                return -ERANGE;
        *ret_number = number;
        return 0;
}

static int option_store(const struct option *option, const char *text, struct config *config)
{
        char *member = (char *)config + option->offset;
        uint64_t number;
        int r;

        if (option->type == OPTION_FAULT)
                return fault_rules_add(&config->faults, option->name, text);
        if (option->type == OPTION_PATH) {
                if (text[0] != '/' || strlen(text) >= sizeof(config->directory))
                        return -EINVAL;
                memcpy(config->directory, text, strlen(text) + 1);
                return 0;
        }
        r = option->type == OPTION_SIZE ? size_parse(text, &number) : number_parse(text, &number);
        if (r)
                return r;
        if (number < option->min || number > option->max)
                return -ERANGE;
        if (option->type == OPTION_SIZE && number % (2 * MIB))
                return -EINVAL;
        if (option->offset == OPTION_AT(n_devices))
                config->n_devices = (unsigned)number;
        else
                memcpy(member, &number, sizeof(number));
        return 0;
}

static int setting_read(char *setting, struct config *config, char *ret_reason)
{
        const struct option *option;
        char *value = strchr(setting, '=');

        if (!value)
                return config_refuse(ret_reason, "'%s' is not of the form name=value", setting);
        *value++ = '\0';
        option = option_find(setting);
        if (!option)
                return config_refuse(ret_reason,
                                     "'%s' is unknown; allowed are devices, bytes, dir, delay_us, "
                                     "copy_delay_us, reclaim_ms, ctx_bytes, dirty, peers, rdma, "
                                     "mig, fault_file, fail, delay, hang, lost and seed",
                                     setting);
        if (option_store(option, value, config))
                return config_refuse(ret_reason, "%s=%s is not allowed; allowed is %s",
                                     option->name, value, option->allowed);
        return 0;
}

static bool shared_memory_has_room(void)
{
        struct statfs fs;

        return statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
               access("/dev/shm", W_OK) == 0 &&
               (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= ROOM_MIN;
}

static int directory_default(struct config *config, char *ret_reason)
{
        const char *parent = secure_getenv("TMPDIR");
        int n;

        if (shared_memory_has_room())
                parent = "/dev/shm";
        else if (!parent || parent[0] != '/')
                parent = "/tmp";
        n = snprintf(config->directory, sizeof(config->directory), "%s/gpumem-emulator-%u", parent,
                     (unsigned)getuid());
        if (n < 0 || (size_t)n >= sizeof(config->directory))
                return config_refuse(ret_reason, "TMPDIR is too long; set dir=PATH");
        return 0;
}

int config_read(const char *text, struct config *ret_config, char ret_reason[CONFIG_REASON_MAX])
{
        CLEANUP(freep)
        char *copy = strdup(text ? text : "");
        struct config config = {.n_devices = 1,
                                .device_bytes = 16 * GIB,
                                .reclaim_ms = 200,
                                .n_peers = CONFIG_DEVICES_MAX,
                                .has_rdma = 1,
                                .has_fault_file = 1};
        char *rest = copy, *setting;
        int r;

        if (!copy)
                return config_refuse(ret_reason, "no memory");
        while ((setting = strsep(&rest, ","))) {
                if (*setting == '\0' && !rest)
                        break;
                r = setting_read(setting, &config, ret_reason);
                if (r)
                        return r;
        }
        if (config.directory[0] == '\0') {
                r = directory_default(&config, ret_reason);
                if (r)
                        return r;
        }
        *ret_config = config;
        return 0;
}
