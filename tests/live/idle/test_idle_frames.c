/* SPDX-License-Identifier: Apache-2.0 */
/* Idle leases, past the library: words on boards and messages from clients, and the daemon's reactions.
 * After each test nothing is charged, and the daemon has as many fds open as before. */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "proto/board.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

#define STRANGER 65534

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--device-bytes", "64MiB"));
        n_fds_before = daemon_quiet_fds(&gpumemd);
        daemon_admit_all(&gpumemd);
}

static void *map(int fd, uint64_t n_bytes)
{
        void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

static void expect_mark(const struct party *party)
{
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame frame;

        ck_assert_int_eq(frame_socket_receive(party->fd, FROM_DAEMON, &frame, &fds, &reason), 0);
        ck_assert_int_eq(frame.kind, MESSAGE_NOTICE);
        ck_assert_uint_eq(frame.notice.what, PROTO_NOTICE_MARK);
}

/* Messages to the party that are not replies. */
static unsigned count_marks(const struct party *party)
{
        unsigned n = 0, n_bytes = 0;

        for (; ioctl(party->fd, SIOCINQ, &n_bytes) == 0 && n_bytes > 0; n++)
                expect_mark(party);
        return n;
}

/* A new peak, which is a reason to ask, and long enough after the last question. */
static struct message_leased lease_more(struct party *party)
{
        sleep_ms(1);
        return party_lease(party, 0, 2 * MIB);
}

TEST(who_does_not_read_is_asked_once)
{
        struct party deaf = party_join(), other = party_join();
        struct message_leased first = party_lease(&deaf, 0, 2 * MIB), leases[24];

        for (unsigned i = 0; i < 20; i++)
                leases[i] = lease_more(&other);
        ck_assert_uint_eq(count_marks(&deaf), 1);
        /* It has read the request, and is asked once more. */
        for (unsigned i = 20; i < 24; i++)
                leases[i] = lease_more(&other);
        ck_assert_uint_eq(count_marks(&deaf), 1);
        for (unsigned i = 0; i < 24; i++)
                party_give_back(&other, leases[i].lease);
        party_give_back(&deaf, first.lease);
}

/* Leases and fills pinned memory, marks it idle and stops; then sees that it has lost it. */
static void be_holder(void)
{
        struct party party = party_join();
        struct frame frame = lease_frame(party.pinned, 4 * MIB, 0);
        struct message_leased leased;
        void *bytes;
        int fd;

        party_say(&party, &frame, MESSAGE_LEASE);
        leased = party_take(&party, &fd);
        bytes = map(fd, 4 * MIB);
        memset(bytes, 0x5a, 4 * MIB);
        party_mark_idle(&party, &leased);
        (void)raise(SIGSTOP);
        if (!party_was_revoked(&party, &leased) ||
            board_step(&party.words[leased.slot], leased.lease, BOARD_IDLE, BOARD_BUSY))
                _exit(1);
        (void)munmap(bytes, 4 * MIB);
        closep(&fd);
        party_unmapped(&party, leased.lease);
        party_leave(&party);
        _exit(0);
}

TEST(idle_block_of_a_stopped_holder_serves_another)
{
        struct message_leased leased;
        struct party party;
        struct frame frame;
        unsigned char *bytes;
        pid_t pid = fork();
        int fd, status;

        if (pid == 0)
                be_holder();
        ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
        ck_assert(WIFSTOPPED(status));
        party = party_join();
        frame = lease_frame(party.pinned, 4 * MIB, 0);
        party_say(&party, &frame, MESSAGE_LEASE);
        leased = party_take(&party, &fd);
        bytes = map(fd, 4 * MIB);
        ck_assert_uint_eq(bytes[0], 0x5a);
        ck_assert_uint_eq(bytes[4 * MIB - 1], 0x5a);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 4 * MIB);
        (void)munmap(bytes, 4 * MIB);
        closep(&fd);
        ck_assert_int_eq(kill(pid, SIGCONT), 0);
        child_await(pid, 0);
        party_give_back(&party, leased.lease);
}

static uint64_t expect_notice(const struct party *party)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        party_expect(party, MESSAGE_NOTICE, &frame, &fds);
        ck_assert_uint_eq(frame.notice.what, PROTO_NOTICE_UNMAP);
        ck_assert_uint_eq(frame.serial, 0);
        return frame.notice.lease;
}

/* Only a scan of the boards finds the holder's idle memory. */
TEST(another_tenant_waits_until_it_is_unmapped, NEEDS_ROOT)
{
        struct party holder = party_join(), stranger = party_join_as(STRANGER);
        struct message_leased held = party_lease(&holder, 0, 48 * MIB), got;
        struct frame frame = lease_frame(0, 32 * MIB, AWAIT_MS);

        party_say(&stranger, &frame, MESSAGE_LEASE);
        daemon_await(FIGURE_waiting, 1);
        party_mark_idle(&holder, &held);
        ck_assert_uint_eq(expect_notice(&holder), held.lease);
        ck_assert(party_was_revoked(&holder, &held));
        daemon_await(FIGURE_lingering, 48 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 48 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 1);
        party_unmapped(&holder, held.lease);
        got = party_take(&stranger, NULL);
        ck_assert_uint_ne(got.block, held.block);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 32 * MIB);
        party_give_back(&stranger, got.lease);
}

TEST(a_smaller_block_serves_if_it_may)
{
        struct party one = party_join(), other = party_join();
        struct message_leased idle = party_lease(&one, 0, 8 * MIB), got;
        struct frame frame = lease_frame(0, 32 * MIB, 0);

        party_mark_idle(&one, &idle);
        frame.lease.n_least_units = 3;
        party_say(&other, &frame, MESSAGE_LEASE);
        got = party_take(&other, NULL);
        ck_assert_uint_eq(got.block, idle.block);
        ck_assert_uint_eq(got.n_bytes, 8 * MIB);
        frame.lease.n_least_units = 5;
        party_give_back(&other, got.lease);
        party_say(&other, &frame, MESSAGE_LEASE);
        got = party_take(&other, NULL);
        ck_assert_uint_eq(got.n_bytes, 32 * MIB);
        party_give_back(&other, got.lease);
        party_unmapped(&one, idle.lease);
}

TEST(a_mapped_block_comes_back_known)
{
        struct party party = party_join();
        struct message_leased first = party_lease(&party, 0, 8 * MIB);
        struct frame frame = FRAME_NULL, answer;
        struct fdset fds = FDSET_NULL;

        frame.return_lease.lease = first.lease;
        party_say(&party, &frame, MESSAGE_RETURN);
        frame = lease_frame(0, 8 * MIB, 0);
        frame.lease.flags = PROTO_LEASE_KNOWN;
        party_say(&party, &frame, MESSAGE_LEASE);
        party_expect(&party, MESSAGE_KNOWN, &answer, &fds);
        ck_assert_uint_eq(fds.n, 0);
        ck_assert_uint_eq(answer.serial, party.serial);
        ck_assert_uint_eq(answer.known.block, first.block);
        ck_assert_uint_eq(answer.known.n_bytes, 8 * MIB);
        ck_assert_uint_ne(answer.known.slot, first.slot);
        ck_assert(board_is(&party.words[answer.known.slot], answer.known.lease, BOARD_BUSY));
        party_unmapped(&party, first.lease);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        party_give_back(&party, answer.known.lease);
        /* It does not map it any more. */
        frame = lease_frame(0, 8 * MIB, 0);
        frame.lease.flags = PROTO_LEASE_KNOWN;
        party_say(&party, &frame, MESSAGE_LEASE);
        first = party_take(&party, NULL);
        ck_assert_uint_eq(first.block, answer.known.block);
        party_give_back(&party, first.lease);
}

/* One block in use, and one that is idle. */
static void be_killed(void)
{
        struct party party = party_join();
        struct message_leased leased;

        (void)party_lease(&party, 0, 8 * MIB);
        leased = party_lease(&party, 0, 4 * MIB);
        party_mark_idle(&party, &leased);
        (void)kill(getpid(), SIGKILL);
}

TEST(what_the_dead_did_not_use_is_cached)
{
        struct message_leased got;
        struct party party;
        pid_t pid = fork();

        if (pid == 0)
                be_killed();
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        daemon_await(FIGURE_cached, 4 * MIB);
        daemon_await(FIGURE_charged, 0);
        daemon_await(FIGURE_reserved, 4 * MIB);
        party = party_join();
        got = party_lease(&party, 0, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 2);
        party_give_back(&party, got.lease);
}

/* Every possible word, about present, past and future leases. */
static void scrawl(const struct party *party, uint64_t round)
{
        for (uint32_t slot = 0; slot < party->n_slots; slot++) {
                uint64_t id = (round + slot) % 64;

                atomic_store(&party->words[slot],
                             slot % 7 == 0 ? (uint64_t)random() << 32 | (uint64_t)random()
                                           : board_word(id, (enum board_state)(round % 5)));
        }
}

TEST(a_scrawled_board_harms_nobody, NEEDS_ROOT)
{
        struct party liar = party_join(), honest = party_join(), stranger = party_join_as(STRANGER);
        struct message_leased kept = party_lease(&stranger, 0, 4 * MIB);

        party_mark_idle(&stranger, &kept);
        for (uint64_t round = 0; round < 200; round++) {
                struct message_leased mine = party_lease(&honest, 0, 4 * MIB);
                struct frame frame = lease_frame(0, 4 * MIB, 0);
                struct fdset fds = FDSET_NULL;
                uint64_t his;

                scrawl(&liar, round);
                party_say(&liar, &frame, MESSAGE_LEASE);
                party_expect(&liar, MESSAGE_LEASED, &frame, &fds);
                fdset_deinit(&fds);
                his = frame.leased.lease;
                scrawl(&liar, round);
                ck_assert(board_is(&honest.words[mine.slot], mine.lease, BOARD_BUSY));
                party_give_back(&honest, mine.lease);
                party_give_back(&liar, his);
        }
        ck_assert(board_is(&stranger.words[kept.slot], kept.lease, BOARD_IDLE));
        party_give_back(&stranger, kept.lease);
}

TESTS_MAIN("idle frames", .limit_s = 60, .start = start, .stop = frames_stop)
