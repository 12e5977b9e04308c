/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/legacy_world.h"

#include <stdio.h>

#define OF_256_MIB OPTIONS("--device-bytes", "256MiB")

void legacy_start(struct daemon *daemon, const char *emulator, unsigned uid)
{
        char configuration[128];

        (void)snprintf(configuration, sizeof(configuration),
                       "{\"user\": %u, \"tenants\": \"uid\", \"pools\": [{\"device\": \"all\", "
                       "\"ipc\": \"legacy\"}]}\n",
                       uid);
        daemon_start_configured(daemon, emulator, OF_256_MIB, configuration);
}

void legacy_restart(struct daemon *daemon)
{
        daemon_restart(daemon, NULL, OF_256_MIB);
}
