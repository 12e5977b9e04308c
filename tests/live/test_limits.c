/* SPDX-License-Identifier: Apache-2.0 */
/* Limits from the configuration: who is refused or waits, and what a new configuration changes. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/live/limits_world.h"
#include "tests/suite.h"

#define PATIENCE_MS 20000

static void must_be_refused(struct link *link, uint64_t n_bytes, uint32_t wait_ms, const char *why)
{
        char text[LINK_REFUSAL_MAX];
        uint64_t id;

        ck_assert_int_eq(lease(link, n_bytes, wait_ms, &id), GPUMEM_E_LIMIT);
        link_refusal(link, text);
        /* Then who holds how much, and what to do. */
        ck_assert_msg(strncmp(text, why, strlen(why)) == 0 && text[strlen(why)] == '.', "%s", text);
        ck_assert_ptr_nonnull(strstr(text, "gpumemctl limits"));
}

/* As refusals call this process's tenant: it may run in a container. */
#define TENANT_NAME_MAX 96

static void name_own_tenant(struct link *link, char ret_name[static TENANT_NAME_MAX])
{
        struct limit_row row = limit_of(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_LEASES);

        (void)snprintf(ret_name, TENANT_NAME_MAX, "tenant uid %u%s%s", (unsigned)getuid(),
                       *row.name ? " in " : "", row.name);
}

static void reload(struct link *link, const char *config, uint32_t scope, uint32_t holder,
                   uint32_t kind, uint64_t wanted)
{
        uint64_t max = 0;

        write_config(config);
        ck_assert_int_eq(kill(gpumemd.pid, SIGHUP), 0);
        for (unsigned ms = 0; ms < PATIENCE_MS; ms += 5) {
                max = limit_of(link, scope, holder, kind).max;
                if (max == wanted)
                        return;
                sleep_ms(5);
        }
        ck_abort_msg("the limit is %llu", (unsigned long long)max);
}

TEST(a_client_is_limited)
{
        struct link *link = open_link("limited", NULL);
        uint64_t first = must_lease(link, 10 * MIB), second = must_lease(link, 6 * MIB);
        char why[LINK_REFUSAL_MAX];

        (void)snprintf(why, sizeof(why),
                       "client %d (limited): 16.00 MiB of 16.00 MiB device memory charged; "
                       "2.00 MiB asked",
                       (int)getpid());
        must_be_refused(link, 2 * MIB, 0, why);
        /* Such a request waits: for this long, as nobody gives anything back. */
        must_be_refused(link, 2 * MIB, 50, why);
        give_back(link, second);
        second = must_lease(link, 6 * MIB);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_CLIENT, (uint32_t)getpid(), PROTO_LIMIT_DEVICE_BYTES)
                        .used,
                16 * MIB);
        give_back(link, first);
        give_back(link, second);
        link_free(link);
}

TEST(what_can_never_fit_is_refused_at_once)
{
        struct link *link = open_link("limited", NULL);
        char why[LINK_REFUSAL_MAX];

        (void)snprintf(why, sizeof(why),
                       "client %d (limited): 0 B of 16.00 MiB device memory charged; "
                       "18.00 MiB asked, which is more than there may ever be",
                       (int)getpid());
        /* The test would not end if this waited. */
        must_be_refused(link, 18 * MIB, UINT32_MAX, why);
        link_free(link);
}

struct returner {
        struct link *link;
        uint64_t lease;
};

static void *give_back_later(void *argument)
{
        struct returner *returner = argument;

        daemon_await(FIGURE_waiting, 1);
        give_back(returner->link, returner->lease);
        return NULL;
}

TEST(a_request_waits_for_its_own_side)
{
        struct link *link = open_link("limited", NULL);
        struct returner returner = {link, must_lease(link, 16 * MIB)};
        uint64_t got = 0;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, give_back_later, &returner), 0);
        ck_assert_int_eq(lease(link, 4 * MIB, PATIENCE_MS, &got), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        give_back(link, got);
        link_free(link);
}

/* A process of the same tenant that leases n_bytes, says so, and ends when it is told to. */
static pid_t hold_elsewhere(uint64_t n_bytes, int *ret_end)
{
        int ready[2], end[2];
        char byte = 0;
        pid_t child;

        ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
                (void)close(end[1]);
                (void)must_lease(open_link("limited", NULL), n_bytes);
                ck_assert_int_eq(write(ready[1], &byte, 1), 1);
                (void)!read(end[0], &byte, 1);
                _exit(0);
        }
        (void)close(ready[1]);
        (void)close(end[0]);
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
        (void)close(ready[0]);
        *ret_end = end[1];
        return child;
}

TEST(a_tenant_is_limited_across_processes)
{
        struct link *link = open_link("limited", NULL);
        uint64_t held = must_lease(link, 10 * MIB), got = 0;
        int end;
        pid_t other = hold_elsewhere(14 * MIB, &end);
        char tenant[TENANT_NAME_MAX], why[LINK_REFUSAL_MAX];

        name_own_tenant(link, tenant);
        (void)snprintf(why, sizeof(why),
                       "%s: 24.00 MiB of 24.00 MiB device memory charged; 2.00 MiB asked", tenant);
        must_be_refused(link, 2 * MIB, 0, why);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES).used,
                24 * MIB);
        /* Its death makes room. */
        (void)close(end);
        ck_assert_int_eq(lease(link, 2 * MIB, PATIENCE_MS, &got), 0);
        ck_assert_int_eq(waitpid(other, NULL, 0), other);
        give_back(link, held);
        give_back(link, got);
        link_free(link);
}

TEST(leases_are_counted)
{
        struct link *links[2] = {open_link("limited", NULL), open_link("limited", NULL)};
        uint64_t held[6];
        char tenant[TENANT_NAME_MAX], why[LINK_REFUSAL_MAX];

        name_own_tenant(links[0], tenant);
        (void)snprintf(why, sizeof(why), "%s: 6 of 6 leases charged; 1 asked", tenant);
        for (unsigned i = 0; i < 6; i++)
                held[i] = must_lease(links[i / 3], 2 * MIB);
        must_be_refused(links[0], 2 * MIB, 0, why);
        for (unsigned i = 0; i < 6; i++)
                give_back(links[i / 3], held[i]);
        link_free(links[0]);
        link_free(links[1]);
}

TEST(a_hangup_raises_and_lowers)
{
        struct link *link = open_link("limited", NULL);
        char lower[128];
        uint64_t held[3];

        (void)snprintf(lower, sizeof(lower),
                       "{\"pools\": [{\"device\": \"all\", \"max_fraction\": %.12f}],"
                       " \"limits\": {\"client\": {\"device_bytes\": \"40MiB\"}}}",
                       fraction_of(8 * MIB));
        held[0] = must_lease(link, 16 * MIB);
        reload(link,
               "{\"pools\": [{\"device\": 0, \"max_bytes\": \"32MiB\"}],"
               " \"limits\": {\"client\": {\"device_bytes\": \"40MiB\"}}}",
               PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, PROTO_LIMIT_DEVICE_BYTES, 40 * MIB);
        held[1] = must_lease(link, 10 * MIB);
        ck_assert_int_eq(lease(link, 8 * MIB, 0, &held[2]), GPUMEM_E_REFUSED);
        reload(link, lower, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 8 * MIB);
        /* Nothing was taken away, and nothing is given. */
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 26 * MIB);
        ck_assert_int_eq(lease(link, 2 * MIB, 0, &held[2]), GPUMEM_E_REFUSED);
        ck_assert_int_eq(lease(link, 10 * MIB, UINT32_MAX, &held[2]), GPUMEM_E_TOO_LARGE);
        give_back(link, held[0]);
        give_back(link, held[1]);
        held[2] = must_lease(link, 8 * MIB);
        give_back(link, held[2]);
        link_free(link);
}

TESTS_MAIN("limits", .limit_s = 60, .start = limits_start, .stop = limits_stop)
