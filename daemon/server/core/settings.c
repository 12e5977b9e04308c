/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void settings_deinit(struct settings *settings)
{
        free(settings->rules);
        settings->limits = limits_free(settings->limits);
        *settings = SETTINGS_NULL;
}

int device_ipc_parse(const char *text, enum device_ipc *ret_ipc)
{
        if (strcmp(text, "fd") == 0)
                *ret_ipc = IPC_FD;
        else if (strcmp(text, "legacy") == 0)
                *ret_ipc = IPC_LEGACY;
        else
                return -EINVAL;
        return 0;
}

int tenancy_parse(const char *text, enum tenancy *ret_tenancy)
{
        if (strcmp(text, "container") == 0)
                *ret_tenancy = TENANCY_OF_CONTAINERS;
        else if (strcmp(text, "uid") == 0)
                *ret_tenancy = TENANCY_OF_USERS;
        else if (strcmp(text, "client") == 0)
                *ret_tenancy = TENANCY_OF_CLIENTS;
        else
                return -EINVAL;
        return 0;
}

int pinned_backing_parse(const char *text, enum pinned_backing *ret_backing)
{
        if (strcmp(text, "memfd") == 0)
                *ret_backing = PINNED_MEMFD;
        else if (strcmp(text, "vmm") == 0)
                *ret_backing = PINNED_VMM;
        else
                return -EINVAL;
        return 0;
}
