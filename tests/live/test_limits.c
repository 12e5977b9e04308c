/* Limits from the configuration, from SET_LIMITS and of the process's own, against a daemon of the
 * test's own. After each test nothing is charged, everything goes back to the driver, and both sides
 * have as many fds open as before. */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "client/rows.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define STRANGER    65534
#define PATIENCE_MS 20000
#define NOBODY      UINT32_MAX

static struct daemon gpumemd;
static char config_path[] = "/tmp/gpumemd-conf-XXXXXX";
static unsigned n_daemon_fds, n_own_fds;

static void write_config(const char *text)
{
        FILE *file = fopen(config_path, "w");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

static void start(void)
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

static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        daemon_stop(&gpumemd);
        (void)unlink(config_path);
}

static struct link *join(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "limited", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        return link;
}

static int lease(struct link *link, uint64_t n_bytes, uint32_t wait_ms, uint64_t *ret_lease)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.wait_ms = wait_ms;
        r = link_call(link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        if (!r)
                *ret_lease = reply.leased.lease;
        fdset_deinit(&fds);
        return r;
}

static uint64_t must_lease(struct link *link, uint64_t n_bytes)
{
        uint64_t id = 0;

        ck_assert_int_eq(lease(link, n_bytes, 0, &id), 0);
        return id;
}

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

static void give_back(struct link *link, uint64_t id)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = id;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_RETURN), 0);
}

static int send_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                      uint64_t max, uint32_t flags)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.set_limits.scope = scope;
        request.set_limits.holder = holder;
        request.set_limits.kind = kind;
        request.set_limits.max = max;
        request.set_limits.flags = flags;
        return link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds);
}

static int set_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                     uint64_t max)
{
        return send_limit(link, scope, holder, kind, max, 0);
}

/* The row of LIMITS for this holder; max is 0 when there is none. */
static struct limit_row limit_of(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct limit_row found = {.max = 0};
        const struct limit_row *rows;
        void *sent;

        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_LIMITS, MESSAGE_LIMITS_REPLY, &reply, &fds), 0);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.limits_reply.n_rows,
                                   reply.limits_reply.n_row_bytes, sizeof(*rows), &sent),
                         0);
        rows = sent;
        for (uint32_t i = 0; i < reply.limits_reply.n_rows; i++) {
                if (rows[i].scope == scope && rows[i].holder == holder && rows[i].kind == kind)
                        found = rows[i];
        }
        free(sent);
        fdset_deinit(&fds);
        return found;
}

/* The part of a device's memory that amounts to these whole blocks and a little, whatever its size. */
static double fraction_of(uint64_t n_bytes)
{
        return (double)(n_bytes + MIB) / (double)daemon_device_bytes();
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

START_TEST(a_client_is_limited)
{
        struct link *link = join();
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
END_TEST

START_TEST(what_can_never_fit_is_refused_at_once)
{
        struct link *link = join();
        char why[LINK_REFUSAL_MAX];

        (void)snprintf(why, sizeof(why),
                       "client %d (limited): 0 B of 16.00 MiB device memory charged; "
                       "18.00 MiB asked, which is more than there may ever be",
                       (int)getpid());
        /* The test would not end if this waited. */
        must_be_refused(link, 18 * MIB, UINT32_MAX, why);
        link_free(link);
}
END_TEST

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

START_TEST(a_request_waits_for_its_own_side)
{
        struct link *link = join();
        struct returner returner = {link, must_lease(link, 16 * MIB)};
        uint64_t got = 0;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, give_back_later, &returner), 0);
        ck_assert_int_eq(lease(link, 4 * MIB, PATIENCE_MS, &got), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        give_back(link, got);
        link_free(link);
}
END_TEST

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
                (void)must_lease(join(), n_bytes);
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

START_TEST(a_tenant_is_limited_across_processes)
{
        struct link *link = join();
        uint64_t held = must_lease(link, 10 * MIB), got = 0;
        int end;
        pid_t other = hold_elsewhere(14 * MIB, &end);
        char why[LINK_REFUSAL_MAX];

        (void)snprintf(why, sizeof(why),
                       "tenant uid %u: 24.00 MiB of 24.00 MiB device memory charged; "
                       "2.00 MiB asked",
                       (unsigned)getuid());
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
END_TEST

START_TEST(leases_are_counted)
{
        struct link *links[2] = {join(), join()};
        uint64_t held[6];
        char why[LINK_REFUSAL_MAX];

        (void)snprintf(why, sizeof(why), "tenant uid %u: 6 of 6 leases charged; 1 asked",
                       (unsigned)getuid());
        for (unsigned i = 0; i < 6; i++)
                held[i] = must_lease(links[i / 3], 2 * MIB);
        must_be_refused(links[0], 2 * MIB, 0, why);
        for (unsigned i = 0; i < 6; i++)
                give_back(links[i / 3], held[i]);
        link_free(links[0]);
        link_free(links[1]);
}
END_TEST

START_TEST(a_hangup_raises_and_lowers)
{
        struct link *link = join();
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
END_TEST

START_TEST(set_limits_changes_one)
{
        struct link *link = join();
        uint64_t held;

        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH,
                                   PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_NONE),
                         0);
        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES,
                                   40 * MIB),
                         0);
        held = must_lease(link, 40 * MIB);
        give_back(link, held);
        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES,
                                   PROTO_LIMIT_INHERIT),
                         0);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES).max,
                24 * MIB);
        ck_assert_int_eq(lease(link, 40 * MIB, 0, &held), GPUMEM_E_LIMIT);
        ck_assert_int_eq(
                set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 16 * MIB), 0);
        ck_assert_int_eq(lease(link, 18 * MIB, 0, &held), GPUMEM_E_TOO_LARGE);
        link_free(link);
}
END_TEST

START_TEST(a_change_may_be_only_checked)
{
        struct link *link = join();

        ck_assert_int_eq(send_limit(link, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH,
                                    PROTO_LIMIT_DEVICE_BYTES, 2 * MIB, PROTO_LIMIT_CHECK),
                         0);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_DEVICE_BYTES).max,
                16 * MIB);
        ck_assert_int_eq(send_limit(link, PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_RESERVED_BYTES,
                                    4 * MIB, PROTO_LIMIT_CHECK),
                         GPUMEM_E_BAD_REQUEST);
        link_free(link);
}
END_TEST

START_TEST(an_exemption_is_listed)
{
        struct link *link = join();
        uint32_t uids[] = {getuid(), STRANGER};

        for (unsigned i = 0; i < ARRAY_SIZE(uids); i++) {
                struct limit_row row;

                ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, uids[i],
                                           PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_NONE),
                                 0);
                row = limit_of(link, PROTO_LIMIT_OF_TENANT, uids[i], PROTO_LIMIT_DEVICE_BYTES);
                ck_assert_uint_eq(row.max, PROTO_LIMIT_NONE);
        }
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_DEVICE_BYTES).max,
                24 * MIB);
        link_free(link);
}
END_TEST

START_TEST(senseless_limits_are_refused)
{
        const struct {
                uint32_t scope, holder, kind;
                uint64_t max;
        } wrong[] = {
                {PROTO_LIMIT_OF_CLIENT, 0, PROTO_LIMIT_LEASES, 1},
                {PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_RESERVED_BYTES, 1},
                {PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_LEASES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_LEASES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES, UINT64_C(1) << 63},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_DEVICE_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, NOBODY, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, daemon_device_bytes() + MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, PROTO_LIMIT_NONE},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, daemon_device_bytes() + 1},
                {PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_MIN_BYTES, MIB},
                {PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_MIN_BYTES, MIB},
        };
        struct link *link = join();

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
                ck_assert_int_eq(set_limit(link, wrong[i].scope, wrong[i].holder, wrong[i].kind,
                                           wrong[i].max),
                                 GPUMEM_E_BAD_REQUEST);
        link_free(link);
}
END_TEST

/* What a user who is not the daemon's may do, as an exit status. */
static int as_stranger(void)
{
        struct link *link;
        int status = 0;

        if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
            setresuid(STRANGER, STRANGER, STRANGER))
                return 1;
        link = join();
        if (set_limit(link, PROTO_LIMIT_OF_TENANT, STRANGER, PROTO_LIMIT_LEASES, 100) !=
            GPUMEM_E_DENIED)
                status |= 2;
        if (limit_of(link, PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES).max)
                status |= 4;
        if (limit_of(link, PROTO_LIMIT_OF_TENANT, STRANGER, PROTO_LIMIT_LEASES).max != 6)
                status |= 8;
        if (!limit_of(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES).max)
                status |= 16;
        link_free(link);
        return status;
}

/* Runs as root only: nobody else can become somebody. */
START_TEST(strangers_set_nothing)
{
        struct link *link = join();
        int status;
        pid_t child;

        ck_assert_int_eq(chmod(gpumemd.place, 0755), 0);
        ck_assert_int_eq(chmod(gpumemd.socket, 0666), 0);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
                _exit(as_stranger());
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_uint_eq(limit_of(link, PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES).max, 6);
        link_free(link);
}
END_TEST

static int alloc_on(const struct gpu *gpu, struct gpumem_client *client, int32_t device,
                    uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .place = device,
                                         .stream = gpu_stream(gpu),
                                         .n_bytes = n_bytes};

        return gpumem_alloc(client, &request, ret_pointer);
}

START_TEST(a_process_limits_itself)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *client;
        void *first, *second;
        struct gpu *gpu;
        char fraction[32];

        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        n_own_fds = own_fds();
        (void)snprintf(fraction, sizeof(fraction), "%.12f", fraction_of(8 * MIB));
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", fraction, 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 6 * MIB, &first), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), GPUMEM_E_LIMIT);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "this client's own limit: 6.00 MiB of "));
        ck_assert_ptr_nonnull(strstr(refusal.text, " device memory reserved; 4.00 MiB asked"));
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 10 * MIB), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, 0), 0);
        ck_assert_int_eq(gpumem_free(client, second, gpu_stream(gpu)), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), GPUMEM_E_LIMIT);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, GPUMEM_NO_LIMIT), 0);
        ck_assert_int_eq(alloc_on(gpu, client, 0, 4 * MIB, &second), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 9, 1), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_set_limit(client, 9, 0, 1), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 1),
                         GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_free(client, first, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(client, second, gpu_stream(gpu)), 0);
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpu_free(gpu);
        n_own_fds = own_fds();
}
END_TEST

START_TEST(a_bad_fraction_is_an_error)
{
        static const char *const wrong[] = {"0", "1.01", "half", "-0.5",
                                            ".", "0.5x", "1e-1", "nan"};
        struct gpumem_client *client;

        /* The driver stays loaded, with the fds that it has. */
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        gpumem_disconnect(client);
        n_own_fds = own_fds();
        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
                ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", wrong[i], 1), 0);
                ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_BAD_FRACTION);
        }
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", "1.0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        gpumem_disconnect(client);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("limits");
        TCase *tests = tcase_create("limits");

        tcase_set_timeout(tests, 60);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, a_client_is_limited);
        tcase_add_test(tests, what_can_never_fit_is_refused_at_once);
        tcase_add_test(tests, a_request_waits_for_its_own_side);
        tcase_add_test(tests, a_tenant_is_limited_across_processes);
        tcase_add_test(tests, leases_are_counted);
        tcase_add_test(tests, a_hangup_raises_and_lowers);
        tcase_add_test(tests, set_limits_changes_one);
        tcase_add_test(tests, a_change_may_be_only_checked);
        tcase_add_test(tests, an_exemption_is_listed);
        tcase_add_test(tests, senseless_limits_are_refused);
        if (geteuid() == 0)
                tcase_add_test(tests, strangers_set_nothing);
        tcase_add_test(tests, a_process_limits_itself);
        tcase_add_test(tests, a_bad_fraction_is_an_error);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
