/* SPDX-License-Identifier: Apache-2.0 */
/* Limits from the configuration, and limits that SET_LIMITS changes or only checks: which requests are
 * refused or wait, and how limits are listed. After each test nothing is charged, everything goes back to
 * the driver, and both sides have as many fds open as before. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>

#include "tests/live/support/world.h"

#define PATIENCE_MS 20000
#define STRANGER    65534
#define ABSENT      77

/* The holder of a limit, and its kind. */
#define EACH_CLIENT  PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH
#define OWN_CLIENT   PROTO_LIMIT_OF_CLIENT, (uint32_t)getpid()
#define EACH_TENANT  PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_OF_EACH
#define OWN_TENANT   PROTO_LIMIT_OF_TENANT, getuid()
#define POOL(number) PROTO_LIMIT_OF_POOL, (number)
#define DEVICE       PROTO_LIMIT_DEVICE_BYTES
#define LEASES       PROTO_LIMIT_LEASES
#define RESERVED     PROTO_LIMIT_RESERVED_BYTES
#define MINIMUM      PROTO_LIMIT_MIN_BYTES
#define CACHED       PROTO_LIMIT_CACHED_BYTES
#define FREE         PROTO_LIMIT_FREE_BYTES
#define RETURN       PROTO_LIMIT_RETURN_SECONDS

static unsigned n_own_fds;
static struct link *admin; /* over the admin socket */

static void start_with(const char *emulator, const char *configuration)
{
        daemon_start_configured(&gpumemd, emulator, NULL, configuration);
        daemon_note_fds(&gpumemd);
        n_own_fds = own_fds();
        admin = open_admin_link("limited");
}

/* A device of 64 MiB, with 16 MiB for each client, and 24 MiB and 6 leases for each tenant. */
static void start(void)
{
        start_with("devices=2,bytes=256MiB",
                   "{\"pools\": [{\"device\": 0, \"max_bytes\": \"64MiB\"},"
                   "             {\"pinned\": \"all\", \"max_bytes\": \"64MiB\"}],"
                   " \"limits\": {\"client\": {\"device_bytes\": \"16MiB\"},"
                   "              \"tenant\": {\"device_bytes\": \"24MiB\", \"leases\": 6}}}");
}

static void start_without_limits(void)
{
        start_with("devices=1,bytes=256MiB", "{}");
}

/* The daemon inherits that a file which may not be made larger is an error, and ends no process. */
static void start_with_small_files(void)
{
        (void)signal(SIGXFSZ, SIG_IGN);
        start();
}

static void stop(void)
{
        link_free(admin);
        daemon_expect_empty();
        ck_assert_uint_eq(own_fds(), n_own_fds);
        daemon_stop_empty(&gpumemd);
}

static const struct test_case unlimited = {"unlimited", .limit_s = 60,
                                           .start = start_without_limits, .stop = stop};

static const struct test_case small_files = {"small_files", .limit_s = 60,
                                             .start = start_with_small_files, .stop = stop};

/* In the first pool. */
static int lease(struct link *by, uint64_t n_bytes, uint32_t wait_ms, uint64_t *ret_lease)
{
        const struct message_lease wanted = {.n_bytes = n_bytes, .wait_ms = wait_ms};
        struct message_leased leased;
        int r = lease_over(by, &wanted, &leased);

        if (!r)
                *ret_lease = leased.lease;
        return r;
}

static uint64_t must_lease(struct link *by, uint64_t n_bytes)
{
        uint64_t id = 0;

        ck_assert_int_eq(lease(by, n_bytes, 0, &id), 0);
        return id;
}

static void give_back(struct link *by, uint64_t id)
{
        return_over(by, id, PROTO_RETURN_UNMAPPED);
}

static int set_limit(struct link *by, uint32_t scope, uint32_t holder, uint32_t kind, uint64_t max)
{
        const struct message_set_limits change = {
                .scope = scope, .holder = holder, .kind = kind, .max = max};

        return set_limit_over(by, &change, NULL);
}

/* The limit that then applies. */
static uint64_t must_set(uint32_t scope, uint32_t holder, uint32_t kind, uint64_t max)
{
        const struct message_set_limits change = {
                .scope = scope, .holder = holder, .kind = kind, .max = max};
        uint64_t in_force = 0;

        ck_assert_int_eq(set_limit_over(admin, &change, &in_force), 0);
        return in_force;
}

/* The row of LIMITS for this holder; max is 0 if there is none. */
static struct limit_row limit_of(struct link *by, uint32_t scope, uint32_t holder, uint32_t kind)
{
        struct limit_row found = {.max = 0};

        (void)find_limit(by, scope, holder, kind, &found);
        return found;
}

static PRINTF_LIKE(4, 5) void must_be_refused(struct link *by, uint64_t n_bytes, uint32_t wait_ms,
                                              const char *format, ...)
{
        char text[LINK_REFUSAL_MAX], why[LINK_REFUSAL_MAX];
        va_list arguments;
        uint64_t id;

        va_start(arguments, format);
        (void)vsnprintf(why, sizeof(why), format, arguments);
        va_end(arguments);
        ck_assert_int_eq(lease(by, n_bytes, wait_ms, &id), GPUMEM_E_LIMIT);
        link_refusal(by, text);
        /* Then the holders, and what to do. */
        ck_assert_msg(strncmp(text, why, strlen(why)) == 0 && text[strlen(why)] == '.', "%s", text);
        must_contain(text, "gpumemctl limits");
}

/* This process's tenant as refusals name it: it may run in a container. */
static const char *own_tenant(void)
{
        struct limit_row row = limit_of(admin, OWN_TENANT, LEASES);
        static char name[96];

        (void)snprintf(name, sizeof(name), "tenant uid %u%s%s", (unsigned)getuid(),
                       *row.name ? " in " : "", row.name);
        return name;
}

static void reload(const char *configuration, uint32_t scope, uint32_t holder, uint32_t kind,
                   uint64_t wanted)
{
        daemon_configure(&gpumemd, configuration);
        for (unsigned ms = 0; ms < PATIENCE_MS; ms += 5) {
                if (limit_of(admin, scope, holder, kind).max == wanted)
                        return;
                sleep_ms(5);
        }
        ck_abort_msg("the limit is %ju", (uintmax_t)limit_of(admin, scope, holder, kind).max);
}

TEST(a_client_is_limited)
{
        uint64_t first = must_lease(admin, 10 * MIB), second = must_lease(admin, 6 * MIB);

        /* With a time to wait it waits that long, since no client returns anything. */
        for (uint32_t wait_ms = 0; wait_ms <= 50; wait_ms += 50)
                must_be_refused(admin, 2 * MIB, wait_ms,
                                "client %d (limited): 16.00 MiB of 16.00 MiB device memory "
                                "charged; 2.00 MiB asked",
                                (int)getpid());
        give_back(admin, second);
        second = must_lease(admin, 6 * MIB);
        ck_assert_uint_eq(limit_of(admin, OWN_CLIENT, DEVICE).used, 16 * MIB);
        give_back(admin, first);
        give_back(admin, second);
}

/* The test would not end if this waited. */
TEST(what_can_never_fit_is_refused_at_once)
{
        must_be_refused(admin, 18 * MIB, UINT32_MAX,
                        "client %d (limited): 0 B of 16.00 MiB device memory charged; "
                        "18.00 MiB asked, more than this client may ever hold (16.00 MiB)",
                        (int)getpid());
}

static void *give_back_later(void *lease)
{
        daemon_await(FIGURE_waiting, 1);
        give_back(admin, *(const uint64_t *)lease);
        return NULL;
}

TEST(a_request_waits_for_its_own_side)
{
        uint64_t held = must_lease(admin, 16 * MIB), got = 0;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, give_back_later, &held), 0);
        ck_assert_int_eq(lease(admin, 4 * MIB, PATIENCE_MS, &got), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        give_back(admin, got);
}

/* A process of the same tenant that leases n_bytes, reports it, and ends when told to. */
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
        uint64_t held = must_lease(admin, 10 * MIB), got = 0;
        int end;
        pid_t other = hold_elsewhere(14 * MIB, &end);

        must_be_refused(admin, 2 * MIB, 0,
                        "%s: 24.00 MiB of 24.00 MiB device memory charged; 2.00 MiB asked",
                        own_tenant());
        ck_assert_uint_eq(limit_of(admin, OWN_TENANT, DEVICE).used, 24 * MIB);
        /* Its death frees memory. */
        (void)close(end);
        ck_assert_int_eq(lease(admin, 2 * MIB, PATIENCE_MS, &got), 0);
        ck_assert_int_eq(waitpid(other, NULL, 0), other);
        give_back(admin, held);
        give_back(admin, got);
}

TEST(leases_are_counted)
{
        struct link *links[2] = {admin, open_link("limited", NULL)};
        uint64_t held[6];

        for (unsigned i = 0; i < 6; i++)
                held[i] = must_lease(links[i / 3], 2 * MIB);
        must_be_refused(admin, 2 * MIB, 0, "%s: 6 of 6 leases charged; 1 asked", own_tenant());
        for (unsigned i = 0; i < 6; i++)
                give_back(links[i / 3], held[i]);
        link_free(links[1]);
}

TEST(a_hangup_raises_and_lowers)
{
        double fraction = (double)(9 * MIB) /
                          (double)daemon_device_bytes(); /* 8 MiB and a little */
        char lower[128];
        uint64_t held[3];

        (void)snprintf(lower, sizeof(lower),
                       "{\"pools\": [{\"device\": \"all\", \"max_fraction\": %.12f}],"
                       " \"limits\": {\"client\": {\"device_bytes\": \"40MiB\"}}}",
                       fraction);
        held[0] = must_lease(admin, 16 * MIB);
        reload("{\"pools\": [{\"device\": 0, \"max_bytes\": \"32MiB\"}],"
               " \"limits\": {\"client\": {\"device_bytes\": \"40MiB\"}}}",
               EACH_CLIENT, DEVICE, 40 * MIB);
        held[1] = must_lease(admin, 10 * MIB);
        ck_assert_int_eq(lease(admin, 8 * MIB, 0, &held[2]), GPUMEM_E_REFUSED);
        reload(lower, POOL(0), RESERVED, 8 * MIB);
        /* Nothing was taken away, and nothing is granted. */
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 26 * MIB);
        ck_assert_int_eq(lease(admin, 2 * MIB, 0, &held[2]), GPUMEM_E_REFUSED);
        ck_assert_int_eq(lease(admin, 10 * MIB, UINT32_MAX, &held[2]), GPUMEM_E_TOO_LARGE);
        give_back(admin, held[0]);
        give_back(admin, held[1]);
        held[2] = must_lease(admin, 8 * MIB);
        give_back(admin, held[2]);
}

TEST(set_limits_changes_one)
{
        uint64_t held;

        (void)must_set(EACH_CLIENT, DEVICE, PROTO_LIMIT_NONE);
        (void)must_set(OWN_TENANT, DEVICE, 40 * MIB);
        held = must_lease(admin, 40 * MIB);
        give_back(admin, held);
        (void)must_set(OWN_TENANT, DEVICE, PROTO_LIMIT_INHERIT);
        ck_assert_uint_eq(limit_of(admin, OWN_TENANT, DEVICE).max, 24 * MIB);
        ck_assert_int_eq(lease(admin, 40 * MIB, 0, &held), GPUMEM_E_LIMIT);
        (void)must_set(POOL(0), RESERVED, 16 * MIB);
        ck_assert_int_eq(lease(admin, 18 * MIB, 0, &held), GPUMEM_E_TOO_LARGE);
}

TEST(a_change_may_be_only_checked)
{
        struct message_set_limits change = {.scope = PROTO_LIMIT_OF_CLIENT,
                                            .holder = PROTO_LIMIT_OF_EACH,
                                            .kind = DEVICE,
                                            .max = 2 * MIB,
                                            .flags = PROTO_LIMIT_CHECK};

        ck_assert_int_eq(set_limit_over(admin, &change, NULL), 0);
        ck_assert_uint_eq(limit_of(admin, EACH_CLIENT, DEVICE).max, 16 * MIB);
        change.scope = PROTO_LIMIT_OF_POOL;
        change.holder = 77;
        change.kind = RESERVED;
        ck_assert_int_eq(set_limit_over(admin, &change, NULL), GPUMEM_E_BAD_REQUEST);
}

TEST(an_exemption_is_listed)
{
        uint32_t uids[] = {getuid(), STRANGER};

        for (unsigned i = 0; i < ARRAY_SIZE(uids); i++) {
                (void)must_set(PROTO_LIMIT_OF_TENANT, uids[i], DEVICE, PROTO_LIMIT_NONE);
                ck_assert_uint_eq(limit_of(admin, PROTO_LIMIT_OF_TENANT, uids[i], DEVICE).max,
                                  PROTO_LIMIT_NONE);
        }
        ck_assert_uint_eq(limit_of(admin, EACH_TENANT, DEVICE).max, 24 * MIB);
}

TEST(senseless_limits_are_refused)
{
        const struct {
                uint32_t scope, holder, kind;
                uint64_t max;
        } wrong[] = {
                {PROTO_LIMIT_OF_CLIENT, 0, LEASES, 1},
                {EACH_CLIENT, RESERVED, 1},
                {EACH_CLIENT, LEASES, PROTO_LIMIT_INHERIT},
                {EACH_TENANT, LEASES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_TENANT, 0, LEASES, UINT64_C(1) << 63},
                {POOL(0), DEVICE, 4 * MIB},
                {POOL(77), RESERVED, 4 * MIB},
                {POOL(PROTO_LIMIT_OF_EACH), RESERVED, 4 * MIB},
                {POOL(0), RESERVED, MIB},
                {POOL(0), RESERVED, daemon_device_bytes() + MIB},
                {POOL(0), RESERVED, PROTO_LIMIT_INHERIT},
                {POOL(0), MINIMUM, PROTO_LIMIT_NONE},
                {POOL(0), MINIMUM, PROTO_LIMIT_INHERIT},
                {POOL(0), MINIMUM, daemon_device_bytes() + 1},
                {POOL(77), MINIMUM, MIB},
                {EACH_TENANT, MINIMUM, MIB},
                {POOL(0), CACHED, PROTO_LIMIT_NONE},
                {POOL(0), FREE, PROTO_LIMIT_INHERIT},
                {POOL(0), RETURN, PROTO_LIMIT_NONE},
                {POOL(0), RETURN, 31536001},
                {EACH_CLIENT, RETURN, 1},
                {EACH_TENANT, FREE, 1},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
                ck_assert_int_eq(set_limit(admin, wrong[i].scope, wrong[i].holder, wrong[i].kind,
                                           wrong[i].max),
                                 GPUMEM_E_BAD_REQUEST);
}

/* What a user other than the daemon's may do and see. */
static void be_stranger(const void *unused)
{
        struct link *own = open_link("limited", NULL);
        struct limit_row row;

        (void)unused;
        ck_assert_int_eq(set_limit(own, PROTO_LIMIT_OF_TENANT, STRANGER, LEASES, 100),
                         GPUMEM_E_DENIED);
        ck_assert_uint_eq(limit_of(own, PROTO_LIMIT_OF_TENANT, 0, LEASES).max, 0);
        ck_assert_uint_eq(limit_of(own, PROTO_LIMIT_OF_TENANT, STRANGER, LEASES).max, 6);
        ck_assert_uint_gt(limit_of(own, POOL(0), RESERVED).max, 0);
        ck_assert_uint_eq(find_limit(own, PROTO_LIMIT_OF_TENANT, ABSENT, ANY_LIMIT, &row), 0);
        link_free(own);
}

TEST(strangers_set_nothing_and_do_not_see_who_is_absent, NEEDS_ROOT)
{
        struct limit_row row;

        (void)must_set(PROTO_LIMIT_OF_TENANT, ABSENT, LEASES, 3);
        ck_assert_uint_eq(find_limit(admin, PROTO_LIMIT_OF_TENANT, ABSENT, LEASES, &row), 1);
        ck_assert_uint_eq(row.max, 3);
        ck_assert_uint_eq(row.used, 0);
        daemon_admit_all(&gpumemd);
        as_user(STRANGER, be_stranger, NULL);
        ck_assert_uint_eq(limit_of(admin, PROTO_LIMIT_OF_TENANT, 0, LEASES).max, 6);
}

/* The row of the pool's minimum comes last, if there is one. */
static void check_minimum(uint64_t min)
{
        struct limit_row row;

        ck_assert_uint_eq(find_limit(admin, POOL(0), ANY_LIMIT, &row), min ? 2 : 1);
        if (min)
                ck_assert_uint_eq(row.max, min);
}

TEST(a_pools_limit_is_whole_blocks, .in = &unlimited)
{
        uint64_t whole = limit_of(admin, POOL(0), ANY_LIMIT).max;

        check_minimum(0);
        ck_assert_uint_eq(must_set(POOL(0), RESERVED, 5 * MIB + 1), 4 * MIB);
        check_minimum(0);
        ck_assert_uint_eq(limit_of(admin, POOL(0), ANY_LIMIT).max, 4 * MIB);
        ck_assert_uint_eq(must_set(POOL(0), RESERVED, PROTO_LIMIT_NONE), whole);
}

static int send_change(uint32_t kind, uint64_t max, uint32_t flags)
{
        const struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_POOL, .kind = kind, .max = max, .flags = flags};

        return set_limit_over(admin, &change, NULL);
}

/* In the order in which they are sent, the minimum first or last. */
static int send_pair(uint64_t min, uint64_t max, bool min_first, uint32_t flags)
{
        ck_assert_int_eq(send_change(min_first ? MINIMUM : RESERVED, min_first ? min : max,
                                     PROTO_LIMIT_MORE),
                         0);
        return send_change(min_first ? RESERVED : MINIMUM, min_first ? max : min, flags);
}

/* What is cached already goes when it need not stay any more. */
TEST(what_stays_unused_is_set, .in = &unlimited)
{
        struct link *link = open_link("caches", NULL);

        ck_assert_uint_eq(limit_of(admin, POOL(0), RETURN).max, 0);
        give_back(link, must_lease(link, 16 * MIB));
        daemon_await(FIGURE_cached, 16 * MIB);
        ck_assert_uint_eq(must_set(POOL(0), RETURN, 0), 0);
        daemon_await(FIGURE_cached, 0);
        ck_assert_uint_eq(must_set(POOL(0), CACHED, 8 * MIB), 8 * MIB);
        give_back(link, must_lease(link, 8 * MIB));
        daemon_await(FIGURE_cached, 8 * MIB);
        ck_assert_uint_eq(limit_of(admin, POOL(0), CACHED).used, 8 * MIB);
        ck_assert_uint_eq(limit_of(admin, POOL(0), CACHED).max, 8 * MIB);
        sleep_ms(600);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 8 * MIB);
        ck_assert_uint_eq(must_set(POOL(0), CACHED, 0), 0);
        daemon_await(FIGURE_cached, 0);
        ck_assert_uint_eq(must_set(POOL(0), RETURN, 61), 61);
        ck_assert_uint_eq(limit_of(admin, POOL(0), RETURN).max, 61);
        ck_assert_uint_eq(must_set(POOL(0), FREE, 2 * MIB), 2 * MIB);
        ck_assert_uint_eq(limit_of(admin, POOL(0), FREE).max, 2 * MIB);
        /* The configuration holds again. */
        daemon_configure(&gpumemd, "{}");
        AWAIT(limit_of(admin, POOL(0), FREE).max == 0);
        ck_assert_uint_eq(limit_of(admin, POOL(0), RETURN).max, 0);
        link_free(link);
}

/* NVML says that less is free than is to be. */
TEST(unused_memory_makes_room_when_that_is_set, .in = &unlimited, NEEDS_EMULATOR)
{
        struct link *link = open_link("caches", NULL);

        give_back(link, must_lease(link, 200 * MIB));
        daemon_await_first(FIGURE_device_free, 56 * MIB, 56 * MIB);
        (void)must_set(POOL(0), FREE, 128 * MIB);
        daemon_await(FIGURE_cached, 0);
        link_free(link);
}

TEST(what_is_made_together_is_checked_together, .in = &unlimited, .to = 2)
{
        bool min_first = _i;

        (void)must_set(POOL(0), RESERVED, 16 * MIB);
        ck_assert_int_eq(send_pair(8 * MIB, 4 * MIB, min_first, 0), GPUMEM_E_BAD_REQUEST);
        check_minimum(0);
        ck_assert_uint_eq(must_set(POOL(0), MINIMUM, 16 * MIB), 16 * MIB);
        ck_assert_int_eq(send_pair(32 * MIB, 64 * MIB, min_first, PROTO_LIMIT_CHECK), 0);
        check_minimum(16 * MIB);
        ck_assert_int_eq(send_pair(32 * MIB, 64 * MIB, min_first, 0), 0);
        check_minimum(32 * MIB);
        ck_assert_int_eq(send_pair(6 * MIB, 8 * MIB, min_first, 0), 0);
        check_minimum(6 * MIB);
        /* A pool may be made smaller than the minimum kept there. */
        (void)must_set(POOL(0), RESERVED, 4 * MIB);
        check_minimum(6 * MIB);
}

TEST(one_that_is_refused_takes_those_before_it_along, .in = &unlimited)
{
        ck_assert_int_eq(send_change(MINIMUM, 8 * MIB, PROTO_LIMIT_MORE), 0);
        ck_assert_int_eq(send_change(LEASES, 1, PROTO_LIMIT_MORE), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(send_change(RESERVED, 16 * MIB, 0), 0);
        check_minimum(0);
        for (unsigned i = 0; i < PROTO_LIMIT_CHANGES_MAX; i++)
                ck_assert_int_eq(send_change(MINIMUM, 8 * MIB, PROTO_LIMIT_MORE), 0);
        ck_assert_int_eq(send_change(MINIMUM, 8 * MIB, 0), GPUMEM_E_TOO_MANY);
        check_minimum(0);
        /* Changes that were not finished are dropped with their connection. */
        ck_assert_int_eq(send_change(MINIMUM, 8 * MIB, PROTO_LIMIT_MORE), 0);
        link_free(admin);
        admin = open_admin_link("test");
        check_minimum(0);
}

/* Whether the daemon can make files with anything in them, as it gives to clients. */
static void allow_files(bool may)
{
        struct rlimit size;

        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_FSIZE, NULL, &size), 0);
        size.rlim_cur = may ? size.rlim_max : 0;
        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_FSIZE, &size, NULL), 0);
}

/* It grows with each change, and with each configuration. */
static uint64_t limits_revision(void)
{
        struct frame reply, request = {.set_limits = {.scope = PROTO_LIMIT_OF_CLIENT,
                                                      .holder = PROTO_LIMIT_OF_EACH,
                                                      .kind = DEVICE,
                                                      .flags = PROTO_LIMIT_CHECK,
                                                      .max = MIB}};

        ck_assert_int_eq(ask_over(admin, &request, MESSAGE_SET_LIMITS, &reply), 0);
        return reply.limits_set.revision;
}

/* What clients are told of both devices. */
static bool are_told(uint64_t first, uint64_t second)
{
        struct frame request = FRAME_NULL, reply;
        struct pool_row *rows = rows_over(admin, &request, MESSAGE_POOLS, sizeof(*rows), &reply);
        bool are = rows[0].n_max_bytes == first && rows[1].n_max_bytes == second;

        free(rows);
        return are;
}

static void expect_in_force(uint64_t first, uint64_t second)
{
        ck_assert_uint_eq(limit_of(admin, POOL(0), RESERVED).max, first);
        ck_assert_uint_eq(limit_of(admin, POOL(1), RESERVED).max, second);
}

#define HALVES "{\"pools\": [{\"device\": \"all\", \"max_bytes\": \"32MiB\"}]}"

/* The pools behind it had their earlier limits, and clients were told nothing of any until one changed again. */
TEST(limits_of_which_clients_cannot_be_told_hold, .in = &small_files, NEEDS_EMULATOR)
{
        uint64_t revision = limits_revision();

        allow_files(false);
        daemon_configure(&gpumemd, HALVES);
        AWAIT(limits_revision() > revision);
        allow_files(true);
        ck_assert(are_told(64 * MIB, 256 * MIB));
        expect_in_force(32 * MIB, 32 * MIB);
        daemon_configure(&gpumemd, HALVES);
        AWAIT(are_told(32 * MIB, 32 * MIB));
}

TEST(so_do_those_that_are_set_together, .in = &small_files, NEEDS_EMULATOR)
{
        struct message_set_limits change = {.scope = PROTO_LIMIT_OF_POOL,
                                            .kind = RESERVED,
                                            .max = 16 * MIB,
                                            .flags = PROTO_LIMIT_MORE};

        ck_assert_int_eq(set_limit_over(admin, &change, NULL), 0);
        change.holder = 1;
        change.flags = 0;
        allow_files(false);
        ck_assert_int_eq(set_limit_over(admin, &change, NULL), GPUMEM_E_TOO_MANY);
        allow_files(true);
        expect_in_force(16 * MIB, 16 * MIB);
        ck_assert(are_told(64 * MIB, 256 * MIB));
        (void)must_set(EACH_CLIENT, DEVICE, PROTO_LIMIT_NONE);
        ck_assert(are_told(16 * MIB, 16 * MIB));
}

TESTS_MAIN("limits", .limit_s = 60, .start = start, .stop = stop)
