/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/limits_world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

struct daemon gpumemd;
unsigned n_daemon_fds, n_own_fds;

static char config_path[] = "/tmp/gpumemd-conf-XXXXXX";

void write_config(const char *text)
{
        FILE *file = fopen(config_path, "w");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

void limits_start(void)
{
        const char *options[] = {"--config", config_path, NULL};
        int fd;

        memcpy(config_path + sizeof(config_path) - 7, "XXXXXX", 6);
        fd = mkostemp(config_path, O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        (void)close(fd);
        write_config("{\"pools\": [{\"device\": 0, \"max_bytes\": \"64MiB\"},"
                     "             {\"pinned\": \"all\", \"max_bytes\": \"64MiB\"}],"
                     " \"limits\": {\"client\": {\"device_bytes\": \"16MiB\"},"
                     "              \"tenant\": {\"device_bytes\": \"24MiB\", \"leases\": 6}}}");
        daemon_start(&gpumemd, "devices=2,bytes=256MiB", options);
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        n_own_fds = own_fds();
}

void limits_stop(void)
{
        daemon_expect_empty();
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        daemon_stop(&gpumemd);
        (void)unlink(config_path);
}

int lease(struct link *link, uint64_t n_bytes, uint32_t wait_ms, uint64_t *ret_lease)
{
        const struct message_lease wanted = {.n_bytes = n_bytes, .wait_ms = wait_ms};
        struct message_leased leased;
        int r = lease_over(link, &wanted, &leased);

        if (!r)
                *ret_lease = leased.lease;
        return r;
}

uint64_t must_lease(struct link *link, uint64_t n_bytes)
{
        uint64_t id = 0;

        ck_assert_int_eq(lease(link, n_bytes, 0, &id), 0);
        return id;
}

void give_back(struct link *link, uint64_t id)
{
        return_over(link, id, PROTO_RETURN_UNMAPPED);
}

int set_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind, uint64_t max)
{
        const struct message_set_limits change = {
                .scope = scope, .holder = holder, .kind = kind, .max = max};

        return set_limit_over(link, &change, NULL);
}

struct limit_row limit_of(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind)
{
        struct limit_row found = {.max = 0};

        (void)find_limit(link, scope, holder, kind, &found);
        return found;
}

double fraction_of(uint64_t n_bytes)
{
        return (double)(n_bytes + MIB) / (double)daemon_device_bytes();
}
