/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what holds where the configuration says nothing, a line each: what the manual says is compared with it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"
#include "daemon/config/config.h"
#include "daemon/server/core/pool_settings.h"
#include "gpumem.h"

/* A text that a parser takes for this number. */
#define PRINT_CHOICE(name, parse, type, value, ...)                             \
        do {                                                                    \
                static const char *const texts[] = {__VA_ARGS__};               \
                type parsed;                                                    \
                                                                                \
                for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) { \
                        if (parse(texts[i], &parsed) == 0 && parsed == (value)) \
                                (void)printf("%s \"%s\"\n", name, texts[i]);    \
                }                                                               \
        } while (0)

int main(void)
{
        const struct config config = CONFIG_NULL;
        const struct settings *settings = &config.settings;
        const struct pool_row device = {.kind = GPUMEM_DEVICE, .n_capacity_bytes = 4 * GIB};
        const struct pool_row pinned = {.kind = GPUMEM_PINNED, .n_capacity_bytes = 4 * GIB};

        PRINT_CHOICE("tenants", tenancy_parse, enum tenancy, settings->tenancy, "container", "uid",
                     "client");
        PRINT_CHOICE("backing", pinned_backing_parse, enum pinned_backing,
                     pool_settings_backing(settings, &pinned), "memfd", "vmm");
        PRINT_CHOICE("ipc", device_ipc_parse, enum device_ipc, pool_settings_ipc(settings, &device),
                     "fd", "legacy");
        (void)printf("min_bytes %" PRIu64 "\n", pool_settings_min(settings, &device));
        (void)printf("warm_bytes %" PRIu64 "\n", pool_settings_stock(settings, &device).warm_bytes);
        (void)printf("device of 4 GiB %" PRIu64 " GiB\n",
                     pool_settings_max(settings, &device) / GIB);
        (void)printf("pinned of 4 GiB %" PRIu64 " GiB\n",
                     pool_settings_max(settings, &pinned) / GIB);
        (void)printf("drain_seconds %" PRIu64 "\n", settings->n_drain_seconds);
        (void)printf("connections %" PRIu64 "\n", settings->each_user.n_connections);
        (void)printf("file %s\n", CONFIG_DEFAULT_PATH);
        return 0;
}
