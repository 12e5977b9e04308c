/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/legacy_world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char configuration[64];
static const char *const options[] = {"--device-bytes", LEGACY_POOL_TEXT, "--config", configuration,
                                      NULL};

/* It is read at the start, and not again. */
static void write_configuration(unsigned uid)
{
        FILE *file;
        int fd;

        (void)snprintf(configuration, sizeof(configuration), "/tmp/gpumem-legacy-XXXXXX");
        fd = mkstemp(configuration);
        ck_assert_int_ge(fd, 0);
        file = fdopen(fd, "w");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_gt(
                fprintf(file,
                        "{\"user\": %u, \"tenants\": \"uid\", \"pools\": [{\"device\": \"all\", "
                        "\"ipc\": \"legacy\"}]}\n",
                        uid),
                0);
        ck_assert_int_eq(fclose(file), 0);
}

static unsigned served_uid;

void legacy_start(struct daemon *daemon, const char *emulator, unsigned uid)
{
        served_uid = uid;
        write_configuration(uid);
        daemon_start(daemon, emulator, options);
        (void)unlink(configuration);
}

void legacy_restart(struct daemon *daemon)
{
        write_configuration(served_uid);
        daemon_restart(daemon, NULL, options);
        (void)unlink(configuration);
}
