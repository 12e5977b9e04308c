/* SPDX-License-Identifier: Apache-2.0 */
/* What clients report on their boards, against a daemon of the test's own: it is shown as far as it is
 * possible, and a client that lies spoils no other client's statistics. */
#include <errno.h>
#include <sys/mman.h>

#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/server/session/file_stock.h"
#include "proto/board.h"
#include "tests/live/support/listed.h"
#include "tests/live/support/world.h"

#define STRANGER 65534

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--device-bytes", "64MiB"));
        daemon_note_fds(&gpumemd);
}

/* A client that writes on its board what it likes. */
struct claimant {
        struct member member;
        struct board_pool *counters; /* of the device's pool */
};

static struct claimant join(const char *program)
{
        struct claimant claimant = {.member = member_join(program)};

        claimant.counters = board_pool(claimant.member.board, 0);
        return claimant;
}

static void leave(struct claimant *claimant)
{
        member_end(&claimant->member);
}

static uint64_t must_lease(const struct claimant *claimant, uint64_t n_bytes)
{
        const struct message_lease wanted = {.n_bytes = n_bytes};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(claimant->member.link, &wanted, &leased), 0);
        return leased.lease;
}

static void give_back(const struct claimant *claimant, uint64_t lease)
{
        return_over(claimant->member.link, lease, PROTO_RETURN_UNMAPPED);
}

static void claim_everything(struct claimant *claimant)
{
        memset(claimant->counters, 0xff, sizeof(*claimant->counters));
        for (unsigned i = 0; i < BOARD_LANES; i++) {
                atomic_store(&claimant->counters->lanes[i].allocated, INT64_MAX / BOARD_LANES);
                atomic_store(&claimant->counters->lanes[i].requested, INT64_MAX / BOARD_LANES);
        }
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

        claim_everything(&liar);
        row = row_of("liar");
        ck_assert_uint_eq(row.device_charged, 4 * MIB);
        ck_assert_uint_eq(row.device_allocated, 4 * MIB);
        ck_assert_uint_eq(row.device_requested, 4 * MIB);
        ck_assert_uint_eq(row.device_allocated_peak, daemon_device_bytes());
        ck_assert_uint_eq(row.device_requested_peak, daemon_device_bytes());
        ck_assert_uint_eq(row.device_hits, INT64_MAX);
        ck_assert_uint_eq(row.device_misses, INT64_MAX);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 4 * MIB);
        give_back(&liar, lease);
        leave(&liar);
}

/* Its pages may be gone: each look would take a page fault. */
TEST(a_board_without_its_header_is_looked_at_once)
{
        struct claimant client = join("client");
        struct board_header header = *(const struct board_header *)client.member.board;
        uint64_t lease = must_lease(&client, 4 * MIB);

        atomic_store(&client.counters->lanes[0].allocated, 512);
        ck_assert_uint_eq(row_of("client").device_allocated, 512);
        memset(client.member.board, 0, sizeof(header));
        ck_assert_uint_eq(row_of("client").device_allocated, 0);
        memcpy(client.member.board, &header, sizeof(header));
        ck_assert_uint_eq(row_of("client").device_allocated, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 0);
        give_back(&client, lease);
        leave(&client);
}

/* A free was counted, and the allocation in another lane is not seen yet. */
TEST(sums_below_0_are_0)
{
        struct claimant client = join("client");
        uint64_t lease = must_lease(&client, 4 * MIB);

        atomic_store(&client.counters->lanes[0].allocated, 512);
        atomic_store(&client.counters->lanes[1].allocated, -(uint64_t)MIB);
        atomic_store(&client.counters->lanes[1].requested, -(uint64_t)1);
        ck_assert_uint_eq(row_of("client").device_allocated, 0);
        ck_assert_uint_eq(row_of("client").device_requested, 0);
        give_back(&client, lease);
        leave(&client);
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

/* Memory that it had once. */
static struct claimant join_and_lease(const char *name)
{
        struct claimant claimant = join(name);

        give_back(&claimant, must_lease(&claimant, 2 * MIB));
        return claimant;
}

/* No board is read for nothing. */
TEST(what_has_never_asked_for_memory_reports_nothing)
{
        struct claimant liar = join("liar");

        claim_everything(&liar);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_misses), 0);
        ck_assert_uint_eq(row_of("liar").device_hits, 0);
        ck_assert_uint_eq(row_of("liar").device_allocated_peak, 0);
        give_back(&liar, must_lease(&liar, 2 * MIB));
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), INT64_MAX);
        ck_assert_uint_eq(row_of("liar").device_hits, INT64_MAX);
        leave(&liar);
}

/* Else the daemon would wait for a client that takes a page away just when it is looked at. */
TEST(a_board_whose_pages_may_go_does_not_count)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        const struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_welcome welcome;
        struct message_leased leased;
        struct claimant open = {.counters = NULL};

        ck_assert_int_eq(link_open(NULL, &(struct link_hello){.program = "open"}, &open.member.link,
                                   &welcome, &fds),
                         0);
        open.member.n_board_bytes = welcome.n_board_bytes;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], welcome.n_board_bytes, &open.member.board),
                         0);
        open.counters = board_pool(open.member.board, 0);
        ck_assert_int_eq(lease_over(open.member.link, &wanted, &leased), 0);
        claim_everything(&open);
        ck_assert_uint_eq(row_of("open").device_hits, 0);
        ck_assert_uint_eq(row_of("open").device_allocated, 0);
        ck_assert_uint_eq(board_words(open.member.board, welcome.n_pools)[leased.slot], 0);
        /* To keep the pages now is too late. */
        ck_assert_int_eq(memfd_keep_pages(fds.fds[0]), 0);
        ck_assert_uint_eq(row_of("open").device_hits, 0);
        give_back(&open, leased.lease);
        leave(&open);
}

TEST(pages_of_a_board_that_counts_stay)
{
        struct claimant client = join("client");
        uint64_t lease = must_lease(&client, 4 * MIB);

        ck_assert_int_eq(madvise(client.member.board, client.member.n_board_bytes, MADV_REMOVE),
                         -1);
        ck_assert_int_eq(errno, EPERM);
        ck_assert(board_is(&client.member.words[0], lease, BOARD_BUSY));
        give_back(&client, lease);
        leave(&client);
}

/* Of those that have asked for memory, and of those that have not. */
TEST(no_board_stays_open)
{
        enum { N_CLIENTS = 2 * FILE_STOCK_MAX };
        struct claimant clients[N_CLIENTS];

        for (unsigned i = 0; i < N_CLIENTS; i++) {
                clients[i] = join("client");
                if (i % 2)
                        give_back(&clients[i], must_lease(&clients[i], 2 * MIB));
        }
        ck_assert_uint_ge(daemon_count_boards(&gpumemd), N_CLIENTS / 2);
        for (unsigned i = 1; i < N_CLIENTS; i += 2)
                leave(&clients[i]);
        AWAIT(daemon_count_boards(&gpumemd) <= N_CLIENTS / 2 + FILE_STOCK_MAX);
        for (unsigned i = 0; i < N_CLIENTS; i += 2)
                leave(&clients[i]);
        AWAIT(daemon_count_boards(&gpumemd) <= FILE_STOCK_MAX);
}

TEST(liars_wrap_no_sum)
{
        struct claimant liars[2] = {join_and_lease("first"), join_and_lease("second")};

        atomic_store(&liars[0].counters->lanes[0].hits, 5);
        atomic_store(&liars[1].counters->lanes[0].hits, 7);
        atomic_store(&liars[1].counters->lanes[0].misses, 3);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), 12);
        ck_assert_uint_eq(daemon_figure(FIGURE_misses), 3);
        claim_everything(&liars[0]);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), INT64_MAX);
        ck_assert_uint_eq(daemon_figure(FIGURE_misses), INT64_MAX);
        claim_everything(&liars[1]);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), INT64_MAX);
        leave(&liars[0]);
        leave(&liars[1]);
        daemon_await(FIGURE_hits, 0);
}

static void lower_pool(const struct claimant *claimant, uint64_t max)
{
        const struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_POOL, .kind = PROTO_LIMIT_RESERVED_BYTES, .max = max};

        ck_assert_int_eq(set_limit_over(claimant->member.link, &change, NULL), 0);
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

/* Its memory is still charged, but no process writes its board any more. */
TEST(nothing_is_claimed_by_one_who_left)
{
        pid_t pid = fork();
        struct client_row row;

        if (pid == 0) {
                struct claimant client = join("left");

                (void)must_lease(&client, 4 * MIB);
                claim_everything(&client);
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
        child_kill(pid);
}

static void expect_bounded_sum(const void *unused)
{
        struct listed clients = listed_now(MESSAGE_CLIENTS);

        (void)unused;
        ck_assert_uint_eq(clients.n_rows, 2);
        ck_assert_uint_eq(clients.clients[1].state, LISTED_OTHERS);
        ck_assert_uint_eq(clients.clients[1].clients, 2);
        ck_assert_uint_eq(clients.clients[1].device_hits, INT64_MAX);
        listed_free(&clients);
}

TEST(liars_wrap_no_sum_over_other_tenants, NEEDS_ROOT)
{
        struct claimant liars[2] = {join_and_lease("first"), join_and_lease("second")};

        claim_everything(&liars[0]);
        claim_everything(&liars[1]);
        daemon_admit_all(&gpumemd);
        as_user(STRANGER, expect_bounded_sum, NULL);
        leave(&liars[0]);
        leave(&liars[1]);
}

TESTS_MAIN("board", .limit_s = 60, .start = start, .stop = gpumemd_stop_empty)
