/* SPDX-License-Identifier: Apache-2.0 */
/* What clients claim on their boards, against a daemon of the test's own: it is shown as far as it
 * can be so, and one who lies spoils nobody else's figures. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memfd.h"
#include "base/size.h"
#include "client/connection/rows.h"
#include "gpumem.h"
#include "proto/board.h"
#include "tests/live/daemon.h"
#include "tests/live/listed.h"
#include "tests/suite.h"

#define STRANGER 65534

static struct daemon gpumemd;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "64MiB", NULL};

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        daemon_note_fds(&gpumemd);
}

static void stop(void)
{
        daemon_stop_empty(&gpumemd);
}

/* A client that writes on its board what it likes. */
struct claimant {
        struct link *link;
        void *board;
        size_t n_board_bytes;
        struct board_pool *counters; /* of the device's pool */
        uint64_t n_capacity_bytes;   /* the same */
};

static uint64_t capacity(const struct message_welcome *welcome, int fd)
{
        struct pool_row *pools;
        uint64_t n_bytes;
        void *rows;

        ck_assert_int_eq(
                rows_read(fd, welcome->n_pools, welcome->n_row_bytes, sizeof(*pools), &rows), 0);
        pools = rows;
        n_bytes = pools[0].n_capacity_bytes;
        free(rows);
        return n_bytes;
}

static struct claimant join(const char *program)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct claimant claimant;

        ck_assert_int_eq(link_new(NULL, program, &claimant.link, &welcome, &fds), 0);
        claimant.n_board_bytes = welcome.n_board_bytes;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], welcome.n_board_bytes, &claimant.board), 0);
        claimant.counters = board_pool(claimant.board, 0);
        claimant.n_capacity_bytes = capacity(&welcome, fds.fds[1]);
        fdset_deinit(&fds);
        return claimant;
}

static void leave(struct claimant *claimant)
{
        (void)munmap(claimant->board, claimant->n_board_bytes);
        (void)link_free(claimant->link);
}

static uint64_t must_lease(const struct claimant *claimant, uint64_t n_bytes)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.lease.n_bytes = n_bytes;
        ck_assert_int_eq(
                link_call(claimant->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds),
                0);
        fdset_deinit(&fds);
        return reply.leased.lease;
}

static void give_back(const struct claimant *claimant, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        ck_assert_int_eq(link_send(claimant->link, &frame, MESSAGE_RETURN), 0);
}

static void claim_everything(struct board_pool *counters)
{
        memset(counters, 0xff, sizeof(*counters));
}

static struct client_row row_of(const char *program)
{
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        struct client_row found = {.pid = 0};

        for (uint32_t i = 0; i < listed.n_rows; i++) {
                if (strcmp(listed.clients[i].program, program) == 0)
                        found = listed.clients[i];
        }
        listed_free(&listed);
        ck_assert_uint_ne(found.pid, 0);
        return found;
}

TEST(a_lying_board_is_cut_to_what_can_be)
{
        struct claimant liar = join("liar");
        uint64_t lease = must_lease(&liar, 4 * MIB);
        struct client_row row;

        claim_everything(liar.counters);
        row = row_of("liar");
        ck_assert_uint_eq(row.device_charged, 4 * MIB);
        ck_assert_uint_eq(row.device_allocated, 4 * MIB);
        ck_assert_uint_eq(row.device_requested, 4 * MIB);
        ck_assert_uint_eq(row.device_allocated_peak, liar.n_capacity_bytes);
        ck_assert_uint_eq(row.device_requested_peak, liar.n_capacity_bytes);
        ck_assert_uint_eq(row.device_hits, INT64_MAX);
        ck_assert_uint_eq(row.device_misses, INT64_MAX);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 4 * MIB);
        give_back(&liar, lease);
        leave(&liar);
}

TEST(more_is_not_requested_than_allocated)
{
        struct claimant liar = join("liar");
        uint64_t lease = must_lease(&liar, 4 * MIB);

        atomic_store(&liar.counters->lanes[0].allocated, 512);
        atomic_store(&liar.counters->lanes[0].requested, 2 * MIB);
        ck_assert_uint_eq(row_of("liar").device_requested, 512);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 512);
        give_back(&liar, lease);
        leave(&liar);
}

TEST(liars_wrap_no_sum)
{
        struct claimant liars[2] = {join("first"), join("second")};

        atomic_store(&liars[0].counters->lanes[0].hits, 5);
        atomic_store(&liars[1].counters->lanes[0].hits, 7);
        atomic_store(&liars[1].counters->lanes[0].misses, 3);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), 12);
        ck_assert_uint_eq(daemon_figure(FIGURE_misses), 3);
        claim_everything(liars[0].counters);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), INT64_MAX);
        ck_assert_uint_eq(daemon_figure(FIGURE_misses), INT64_MAX);
        claim_everything(liars[1].counters);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), INT64_MAX);
        leave(&liars[0]);
        leave(&liars[1]);
        daemon_await(FIGURE_hits, 0);
}

static void lower_pool(const struct claimant *claimant, uint64_t max)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.set_limits.scope = PROTO_LIMIT_OF_POOL;
        request.set_limits.kind = PROTO_LIMIT_RESERVED_BYTES;
        request.set_limits.max = max;
        ck_assert_int_eq(link_call(claimant->link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET,
                                   &reply, &fds),
                         0);
}

TEST(a_peak_is_never_below_what_is_there)
{
        struct claimant client = join("client");
        uint64_t lease = must_lease(&client, 8 * MIB);
        struct client_row row;

        atomic_store(&client.counters->lanes[0].allocated, 6 * MIB);
        atomic_store(&client.counters->lanes[0].requested, 5 * MIB);
        row = row_of("client");
        ck_assert_uint_eq(row.device_allocated_peak, 6 * MIB);
        ck_assert_uint_eq(row.device_requested_peak, 5 * MIB);
        atomic_store(&client.counters->allocated_peak, 8 * MIB);
        atomic_store(&client.counters->requested_peak, 7 * MIB);
        lower_pool(&client, 2 * MIB);
        row = row_of("client");
        ck_assert_uint_eq(row.device_allocated, 6 * MIB);
        ck_assert_uint_eq(row.device_allocated_peak, 8 * MIB);
        ck_assert_uint_eq(row.device_requested_peak, 7 * MIB);
        give_back(&client, lease);
        leave(&client);
}

/* Its memory is still charged, but nobody answers for its board. */
TEST(nothing_is_claimed_by_one_who_left)
{
        pid_t pid = fork();
        struct client_row row;

        if (pid == 0) {
                struct claimant client = join("left");

                (void)must_lease(&client, 4 * MIB);
                claim_everything(client.counters);
                leave(&client);
                (void)pause();
                _exit(0);
        }
        daemon_await(FIGURE_lingering, 4 * MIB);
        row = row_of("left");
        ck_assert_uint_eq(row.state, LISTED_LEFT);
        ck_assert_uint_eq(row.device_charged, 4 * MIB);
        ck_assert_uint_eq(row.device_allocated, 0);
        ck_assert_uint_eq(row.device_allocated_peak, 0);
        ck_assert_uint_eq(row.device_hits, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_clients), 1);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Exit status 0 if the sum over the others is bounded. */
static int look_as_stranger(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct listed clients;
        struct link *link;

        if (setresuid(STRANGER, STRANGER, STRANGER) ||
            link_new(NULL, "stranger", &link, &welcome, &fds))
                return 1;
        clients = listed_fetch(link, MESSAGE_CLIENTS);
        if (clients.n_rows != 2 || clients.clients[1].state != LISTED_OTHERS ||
            clients.clients[1].clients != 2)
                return 2;
        return clients.clients[1].device_hits == INT64_MAX ? 0 : 3;
}

TEST(liars_wrap_no_sum_over_other_tenants, NEEDS_ROOT)
{
        struct claimant liars[2] = {join("first"), join("second")};
        int status = -1;
        pid_t pid;

        claim_everything(liars[0].counters);
        claim_everything(liars[1].counters);
        daemon_admit_all(&gpumemd);
        pid = fork();
        if (pid == 0)
                _exit(look_as_stranger());
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        leave(&liars[0]);
        leave(&liars[1]);
}

TESTS_MAIN("board", .limit_s = 60, .start = start, .stop = stop)
