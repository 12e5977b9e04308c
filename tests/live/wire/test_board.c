/* SPDX-License-Identifier: Apache-2.0 */
/* What clients report on their boards, against a daemon of the test's own: it is shown as far as it is
 * possible, and a client that lies spoils no other client's statistics. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/server/session/file_stock.h"
#include "proto/board.h"
#include "tests/live/support/listed.h"
#include "tests/live/support/world.h"
#include "tests/missing_page.h"

#define STRANGER 65534

/* Boards that are made ahead, of both kinds. */
#define N_AHEAD (2 * FILE_STOCK_MAX)

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

/* A client that has mapped its board, and has not sealed it. */
static struct claimant join_unsealed(const char *program, int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct claimant open = {.counters = NULL};

        ck_assert_int_eq(link_open(NULL,
                                   &(struct link_hello){.program = program, .seals_board = true},
                                   &open.member.link, &welcome, &fds),
                         0);
        open.member.n_board_bytes = welcome.n_board_bytes;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], welcome.n_board_bytes, &open.member.board),
                         0);
        open.member.words = board_words(open.member.board, welcome.n_pools);
        open.counters = board_pool(open.member.board, 0);
        *ret_fd = fdset_steal(&fds, 0);
        return open;
}

static void must_not_count(struct claimant *open, int fd)
{
        uint64_t lease = must_lease(open, 2 * MIB);

        claim_everything(open);
        ck_assert_uint_eq(row_of("open").device_hits, 0);
        ck_assert_uint_eq(row_of("open").device_allocated, 0);
        ck_assert_uint_eq(open->member.words[0], 0);
        /* To keep the pages now is too late. */
        (void)memfd_keep_pages(fd);
        ck_assert_uint_eq(row_of("open").device_hits, 0);
        give_back(open, lease);
        leave(open);
        closep(&fd);
}

/* Else the daemon would wait for a client that takes a page away just when it is looked at. */
TEST(a_board_whose_pages_may_go_does_not_count)
{
        int fd;
        struct claimant open = join_unsealed("open", &fd);

        must_not_count(&open, fd);
}

/* A page that the daemon is the first to touch would count as its memory. */
TEST(a_board_that_lacks_a_page_does_not_count)
{
        int fd;
        struct claimant open = join_unsealed("open", &fd);

        ck_assert_int_eq(memfd_make_pages(fd, open.member.board, open.member.n_board_bytes), 0);
        ck_assert_int_eq(madvise((char *)open.member.board + 4096, 4096, MADV_REMOVE), 0);
        ck_assert_int_eq(memfd_keep_pages(fd), 0);
        must_not_count(&open, fd);
}

/* A daemon of this test's own touches no page that its client has not made. */
TEST(a_board_has_no_pages_but_its_clients)
{
        struct stat st;
        int fd;
        struct claimant open = join_unsealed("open", &fd);

        (void)row_of("open");
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_int_eq(st.st_blocks, 0);
        give_back(&open, must_lease(&open, 2 * MIB));
        (void)row_of("open");
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_int_eq(st.st_blocks, 0);
        leave(&open);
        closep(&fd);
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

/* It says that it will seal its board, and keeps the daemon from doing so. Its board counts as a connection. */
TEST(a_board_that_cannot_be_sealed_delays_no_other)
{
        struct missing_page page;
        int fd, others_fd;
        struct claimant open = join_unsealed("open", &fd), other;

        if (missing_page_hold(&page, fd)) {
                leave(&open);
                other = join("other");
                give_back(&other, must_lease(&other, 2 * MIB));
                ck_assert_uint_eq(row_of("other").device_allocated, 0);
                leave(&other);
                other = join_unsealed("other", &others_fd);
                ck_assert_int_eq(memfd_keep_pages(others_fd), 0);
                closep(&others_fd);
                leave(&other);
                AWAIT(daemon_count_boards(&gpumemd) == 1 + N_AHEAD);
                missing_page_provide(&page);
        } else {
                leave(&open);
        }
        AWAIT(daemon_count_boards(&gpumemd) <= N_AHEAD);
        closep(&fd);
}

/* It counts as a connection of its user until the daemon ends: to unmap it might take as long as the client likes. */
TEST(a_board_that_must_not_be_sealed_stays)
{
        int fd;
        struct claimant open = join_unsealed("open", &fd), other;

        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
        must_not_count(&open, fd);
        other = join("other");
        leave(&other);
        AWAIT(daemon_count_boards(&gpumemd) == 1 + N_AHEAD);
}

/* Of those that have asked for memory, and of those that have not. */
TEST(no_board_stays_open)
{
        enum { N_CLIENTS = 2 * N_AHEAD };
        struct claimant clients[N_CLIENTS];

        for (unsigned i = 0; i < N_CLIENTS; i++) {
                clients[i] = join("client");
                if (i % 2)
                        give_back(&clients[i], must_lease(&clients[i], 2 * MIB));
        }
        ck_assert_uint_ge(daemon_count_boards(&gpumemd), N_CLIENTS);
        for (unsigned i = 1; i < N_CLIENTS; i += 2)
                leave(&clients[i]);
        AWAIT(daemon_count_boards(&gpumemd) <= N_CLIENTS / 2 + N_AHEAD);
        for (unsigned i = 0; i < N_CLIENTS; i += 2)
                leave(&clients[i]);
        AWAIT(daemon_count_boards(&gpumemd) <= N_AHEAD);
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
