/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pinned memory from the daemon: for clients that punch holes, with huge pages, and refused.
 * After each test nothing is charged or reserved, and the daemon has as many fds open as before. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fdset.h"
#include "client/connection/rows.h"
#include "tests/live/pinned/huge.h"
#include "tests/live/support/world.h"

static void start_with(const char *const *options)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        daemon_note_fds(&gpumemd);
}

static void start(void)
{
        start_with(OPTIONS("--pinned-bytes", "512MiB"));
}

static void start_on_vmm(void)
{
        start_with(OPTIONS("--pinned-backing", "vmm"));
}

/* As much as the node has. */
static void start_greedy(void)
{
        start_with(OPTIONS("--pinned-bytes", "4TiB"));
}

#define BEGUN_BY(start_) .limit_s = 60, .start = (start_), .stop = gpumemd_stop_empty

static const struct test_case huge_case = {"huge", BEGUN_BY(start)};
static const struct test_case vmm_case = {"vmm", BEGUN_BY(start_on_vmm)};
static const struct test_case greedy = {"greedy", BEGUN_BY(start_greedy)};

/* Of the first pinned pool. */
static struct pool_row read_row(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct pool_row *rows, row;
        struct link *link;
        uint32_t i = 0;
        void *read;

        ck_assert_int_eq(
                link_open(NULL, &(struct link_hello){.program = "rows"}, &link, &welcome, &fds), 0);
        ck_assert_int_eq(
                rows_read(fds.fds[1], welcome.n_pools, welcome.n_row_bytes, sizeof(row), &read), 0);
        rows = read;
        while (i < welcome.n_pools && rows[i].kind != GPUMEM_PINNED)
                i++;
        ck_assert_uint_lt(i, welcome.n_pools);
        row = rows[i];
        free(rows);
        fdset_deinit(&fds);
        link_free(link);
        return row;
}

/* A client that keeps the fd and speaks the protocol by itself. */
struct hostile {
        struct link *link;
        uint64_t lease;
        int fd;
};

static int try_lease(struct hostile *hostile, uint64_t n_bytes)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = {.lease = {.n_bytes = n_bytes, .pool = read_row().id}}, reply;
        int r = link_call(hostile->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);

        if (r)
                return r;
        hostile->lease = reply.leased.lease;
        hostile->fd = fdset_steal(&fds, 0);
        return 0;
}

static struct hostile lease_by_hand(uint64_t n_bytes)
{
        struct hostile hostile = {open_link("hostile", NULL), .fd = -1};

        ck_assert_int_eq(try_lease(&hostile, n_bytes), 0);
        return hostile;
}

static void punch(const struct hostile *hostile)
{
        ck_assert_int_eq(fallocate(hostile->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * MIB,
                                   2 * MIB),
                         0);
}

static void end_by_hand(struct hostile *hostile)
{
        closep(&hostile->fd);
        hostile->link = link_free(hostile->link);
}

static void expect_let_go(struct hostile *hostile)
{
        daemon_await(FIGURE_releases, 1);
        daemon_await(FIGURE_reserved, 0);
        end_by_hand(hostile);
}

TEST(a_whole_block_is_cached)
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        return_over(hostile.link, hostile.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_releases), 0);
        end_by_hand(&hostile);
}

TEST(a_punched_block_is_not_served_again)
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        punch(&hostile);
        return_over(hostile.link, hostile.lease, PROTO_RETURN_UNMAPPED);
        expect_let_go(&hostile);
}

/* Whole when it was given back, and holed before it was unmapped. */
TEST(a_block_punched_in_the_cache_is_let_go)
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        return_over(hostile.link, hostile.lease, 0);
        daemon_await(FIGURE_cached, 4 * MIB);
        punch(&hostile);
        unmapped_over(hostile.link, hostile.lease);
        expect_let_go(&hostile);
}

static uint64_t file_bytes(int fd)
{
        struct stat st;

        ck_assert_int_eq(fstat(fd, &st), 0);
        return (uint64_t)st.st_blocks * 512;
}

/* It says that it has unmapped the block, or was revoked it, and keeps the fd. */
TEST(who_keeps_the_fd_has_the_daemon_pay_for_nothing, .to = 2)
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        return_over(hostile.link, hostile.lease, _i ? PROTO_RETURN_UNMAPPED : 0);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(file_bytes(hostile.fd), 4 * MIB);
        daemon_free_all();
        daemon_await(FIGURE_releases, 1);
        ck_assert_uint_eq(file_bytes(hostile.fd), 0);
        if (!_i)
                unmapped_over(hostile.link, hostile.lease);
        end_by_hand(&hostile);
}

static void lose_connection(const void *unused)
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        (void)unused;
        hostile.link = link_free(hostile.link);
        daemon_await(FIGURE_releases, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 4 * MIB);
        ck_assert_uint_eq(file_bytes(hostile.fd), 4 * MIB);
        end_by_hand(&hostile);
}

/* Its process lives, and may go on with what it has. */
TEST(who_lost_its_connection_keeps_its_bytes)
{
        as_user(geteuid(), lose_connection, NULL);
}

TEST(a_machine_without_memory_refuses, .in = &greedy)
{
        struct pool_row row = read_row();
        struct hostile hostile = {open_link("hostile", NULL), .fd = -1};

        ck_assert_uint_le(row.n_max_bytes, row.n_capacity_bytes);
        ck_assert_uint_gt(row.n_max_bytes + 2 * MIB, row.n_capacity_bytes);
        ck_assert_int_eq(try_lease(&hostile, row.n_max_bytes), GPUMEM_E_DEVICE_FULL);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
        ck_assert_int_eq(try_lease(&hostile, 2 * MIB), 0);
        return_over(hostile.link, hostile.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, 2 * MIB);
        end_by_hand(&hostile);
}

TEST(the_row_tells_the_backing, .in = &vmm_case)
{
        ck_assert_uint_eq(read_row().properties, PROTO_POOL_VMM);
        must_contain(read_row().name, "(vmm)");
}

static blksize_t page_bytes(int fd)
{
        struct stat st;

        ck_assert_int_eq(fstat(fd, &st), 0);
        return st.st_blksize;
}

/* One block takes all that there are; the next has to do with small pages. */
TEST(huge_pages_are_used_while_there_are_some, .in = &huge_case, .can_run = huge_pages_tried,
     .needs = "huge pages")
{
        uint64_t n_bytes = n_free_huge_pages() * 2 * MIB;
        struct hostile huge = lease_by_hand(n_bytes), small = lease_by_hand(4 * MIB);

        ck_assert_int_eq(page_bytes(huge.fd), 2 * MIB);
        ck_assert_int_lt(page_bytes(small.fd), 2 * MIB);
        ck_assert_uint_eq(n_free_huge_pages(), 0);
        return_over(huge.link, huge.lease, PROTO_RETURN_UNMAPPED);
        return_over(small.link, small.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, n_bytes + 4 * MIB);
        end_by_hand(&huge);
        end_by_hand(&small);
}

TEST(a_punched_block_of_huge_pages_is_not_served_again, .in = &huge_case,
     .can_run = huge_pages_tried, .needs = "huge pages")
{
        struct hostile hostile = lease_by_hand(4 * MIB);

        must_contain(read_row().name, "2 MiB pages");
        ck_assert_int_eq(page_bytes(hostile.fd), 2 * MIB);
        punch(&hostile);
        return_over(hostile.link, hostile.lease, PROTO_RETURN_UNMAPPED);
        expect_let_go(&hostile);
}

/* Asks for all there is and leaves while it is being made; returns whether it was made all the same. */
static bool is_made_for_nobody(void)
{
        struct hostile hostile = {open_link("hostile", NULL), .fd = -1};
        struct frame request = {.lease = {.n_bytes = 512 * MIB, .pool = read_row().id}};
        uint64_t n_creates = daemon_figure(FIGURE_creates);

        say_over(hostile.link, &request, MESSAGE_LEASE);
        daemon_await(FIGURE_reserved, 512 * MIB);
        link_free(hostile.link);
        while (daemon_figure(FIGURE_reserved) && daemon_figure(FIGURE_creates) == n_creates)
                sleep_ms(1);
        return daemon_figure(FIGURE_creates) > n_creates;
}

/* A fast machine may be done before, and so may any that does not let this process run. */
TEST(what_nobody_waits_for_is_not_made)
{
        unsigned n = 0;

        while (is_made_for_nobody()) {
                daemon_free_all();
                ck_assert_uint_lt(n++, 100);
        }
}

TESTS_MAIN("holes", .limit_s = 60, .start = start, .stop = gpumemd_stop_empty)
