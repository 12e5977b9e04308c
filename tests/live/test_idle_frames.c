/* Leases that are idle, past the library: what clients write on their boards and say, and what the
 * daemon makes of it. After each test nothing is charged, and the daemon has as many fds open as
 * before. */
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/board.h"
#include "proto/wire.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define STRANGER    65534
#define PATIENCE_MS 20000

static struct daemon gpumemd;
static unsigned n_fds_before;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "64MiB", NULL};

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        n_fds_before = daemon_quiet_fds(&gpumemd);
        ck_assert_int_eq(chmod(gpumemd.place, 0711), 0);
        ck_assert_int_eq(chmod(gpumemd.socket, 0666), 0);
}

static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds_before);
        daemon_stop(&gpumemd);
}

/* A client by hand. */
struct party {
        int fd;
        void *board;
        size_t n_board_bytes;
        uint32_t n_slots;
        _Atomic uint64_t *words;
        uint32_t pinned; /* a pool of pinned memory; 0 is the device's */
        uint32_t serial;
};

static int connect_raw(void)
{
        struct sockaddr_un address;
        struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        return fd;
}

static void expect(const struct party *party, enum message_kind kind, struct frame *ret_frame,
                   struct fdset *ret_fds)
{
        struct proto_reason reason;

        /* What is idle is marked already: that it be done at once says nothing new. */
        do
                ck_assert_int_eq(wire_receive(party->fd, FROM_DAEMON, ret_frame, ret_fds, &reason),
                                 0);
        while (ret_frame->kind == MESSAGE_NOTICE && ret_frame->notice.what == PROTO_NOTICE_MARK);
        ck_assert_msg(ret_frame->kind == kind, "%s came, not %s: %s", proto_name(ret_frame->kind),
                      proto_name(kind),
                      ret_frame->kind == MESSAGE_ERROR ? ret_frame->error.text : "");
}

static uint32_t say(struct party *party, struct frame *frame, enum message_kind kind)
{
        proto_seal(frame, kind, ++party->serial, 0);
        ck_assert_int_eq(wire_send(party->fd, frame, NULL), 0);
        return party->serial;
}

static struct party join(void)
{
        struct party party = {.fd = connect_raw()};
        struct frame hello = FRAME_NULL, welcome;
        struct fdset fds = FDSET_NULL;

        hello.hello = (struct message_hello){.magic = PROTO_MAGIC, .version = PROTO_VERSION};
        proto_put_text(hello.hello.program, sizeof(hello.hello.program), "party");
        say(&party, &hello, MESSAGE_HELLO);
        expect(&party, MESSAGE_WELCOME, &welcome, &fds);
        party.n_board_bytes = welcome.welcome.n_board_bytes;
        party.n_slots = welcome.welcome.n_slots;
        party.pinned = welcome.welcome.n_pools - 1;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], party.n_board_bytes, &party.board), 0);
        party.words = board_words(party.board, welcome.welcome.n_pools);
        fdset_deinit(&fds);
        return party;
}

/* The kernel tells the daemon who it was that connected. */
static struct party join_as_stranger(void)
{
        struct party party;

        ck_assert_int_eq(seteuid(STRANGER), 0);
        party = join();
        ck_assert_int_eq(seteuid(0), 0);
        return party;
}

static void leave(struct party *party)
{
        (void)munmap(party->board, party->n_board_bytes);
        closep(&party->fd);
}

static struct frame asking(uint32_t pool, uint64_t n_bytes)
{
        struct frame frame = FRAME_NULL;

        frame.lease.pool = pool;
        frame.lease.n_bytes = n_bytes;
        return frame;
}

/* Receives LEASED; its fd is ret_fd, or closed. */
static struct message_leased take_leased(const struct party *party, int *ret_fd)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        expect(party, MESSAGE_LEASED, &frame, &fds);
        ck_assert(board_is(&party->words[frame.leased.slot], frame.leased.lease, BOARD_BUSY));
        if (ret_fd)
                *ret_fd = fdset_steal(&fds, 0);
        fdset_deinit(&fds);
        return frame.leased;
}

static struct message_leased lease(struct party *party, uint32_t pool, uint64_t n_bytes)
{
        struct frame frame = asking(pool, n_bytes);

        say(party, &frame, MESSAGE_LEASE);
        return take_leased(party, NULL);
}

static void mark_idle(const struct party *party, const struct message_leased *leased)
{
        ck_assert(board_step(&party->words[leased->slot], leased->lease, BOARD_BUSY, BOARD_IDLE));
}

static bool was_revoked(const struct party *party, const struct message_leased *leased)
{
        return board_is(&party->words[leased->slot], leased->lease, BOARD_REVOKED);
}

static void give_back(struct party *party, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        say(party, &frame, MESSAGE_RETURN);
}

static void unmapped(struct party *party, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        say(party, &frame, MESSAGE_UNMAPPED);
}

static void *map(int fd, uint64_t n_bytes)
{
        void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

START_TEST(who_holds_memory_is_asked_to_mark_what_is_idle)
{
        struct party a = join(), b = join();
        struct message_leased first = lease(&a, 0, 4 * MIB), second = lease(&b, 0, 4 * MIB);
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame frame;

        ck_assert_int_eq(wire_receive(a.fd, FROM_DAEMON, &frame, &fds, &reason), 0);
        ck_assert_int_eq(frame.kind, MESSAGE_NOTICE);
        ck_assert_uint_eq(frame.notice.what, PROTO_NOTICE_MARK);
        give_back(&a, first.lease);
        give_back(&b, second.lease);
        leave(&a);
        leave(&b);
}
END_TEST

/* What has come for the party without its asking. */
static unsigned count_marks(const struct party *party)
{
        unsigned n = 0, n_bytes = 0;

        while (ioctl(party->fd, SIOCINQ, &n_bytes) == 0 && n_bytes > 0) {
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason;
                struct frame frame;

                ck_assert_int_eq(wire_receive(party->fd, FROM_DAEMON, &frame, &fds, &reason), 0);
                ck_assert_int_eq(frame.kind, MESSAGE_NOTICE);
                ck_assert_uint_eq(frame.notice.what, PROTO_NOTICE_MARK);
                n++;
        }
        return n;
}

/* A new peak, which is a reason to ask; and not as soon after the last one that nobody would. */
static struct message_leased lease_more(struct party *party)
{
        sleep_ms(1);
        return lease(party, 0, 2 * MIB);
}

START_TEST(who_does_not_read_is_asked_once)
{
        struct party deaf = join(), other = join();
        struct message_leased first = lease(&deaf, 0, 2 * MIB), leases[24];

        for (unsigned i = 0; i < 20; i++)
                leases[i] = lease_more(&other);
        ck_assert_uint_eq(count_marks(&deaf), 1);
        /* It has read, and is asked again, once. */
        for (unsigned i = 20; i < 24; i++)
                leases[i] = lease_more(&other);
        ck_assert_uint_eq(count_marks(&deaf), 1);
        for (unsigned i = 0; i < 24; i++)
                give_back(&other, leases[i].lease);
        give_back(&deaf, first.lease);
        leave(&other);
        leave(&deaf);
}
END_TEST

/* Leases and fills pinned memory, marks it idle and stops; then sees that it has it no more. */
static void be_holder(void)
{
        struct party party = join();
        struct frame frame = asking(party.pinned, 4 * MIB);
        struct message_leased leased;
        void *bytes;
        int fd;

        say(&party, &frame, MESSAGE_LEASE);
        leased = take_leased(&party, &fd);
        bytes = map(fd, 4 * MIB);
        memset(bytes, 0x5a, 4 * MIB);
        mark_idle(&party, &leased);
        (void)raise(SIGSTOP);
        if (!was_revoked(&party, &leased) ||
            board_step(&party.words[leased.slot], leased.lease, BOARD_IDLE, BOARD_BUSY))
                _exit(1);
        (void)munmap(bytes, 4 * MIB);
        closep(&fd);
        unmapped(&party, leased.lease);
        leave(&party);
        _exit(0);
}

START_TEST(idle_block_of_a_stopped_holder_serves_another)
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
        party = join();
        frame = asking(party.pinned, 4 * MIB);
        say(&party, &frame, MESSAGE_LEASE);
        leased = take_leased(&party, &fd);
        bytes = map(fd, 4 * MIB);
        ck_assert_uint_eq(bytes[0], 0x5a);
        ck_assert_uint_eq(bytes[4 * MIB - 1], 0x5a);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 4 * MIB);
        (void)munmap(bytes, 4 * MIB);
        closep(&fd);
        ck_assert_int_eq(kill(pid, SIGCONT), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        give_back(&party, leased.lease);
        leave(&party);
}
END_TEST

static uint64_t expect_notice(const struct party *party)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        expect(party, MESSAGE_NOTICE, &frame, &fds);
        ck_assert_uint_eq(frame.notice.what, PROTO_NOTICE_UNMAP);
        ck_assert_uint_eq(frame.serial, 0);
        return frame.notice.lease;
}

/* What the holder does not use becomes known only by looking. */
START_TEST(another_tenant_waits_until_it_is_unmapped)
{
        struct party holder = join(), stranger = join_as_stranger();
        struct message_leased held = lease(&holder, 0, 48 * MIB), got;
        struct frame frame = asking(0, 32 * MIB);

        frame.lease.wait_ms = PATIENCE_MS;
        say(&stranger, &frame, MESSAGE_LEASE);
        daemon_await(FIGURE_waiting, 1);
        mark_idle(&holder, &held);
        ck_assert_uint_eq(expect_notice(&holder), held.lease);
        ck_assert(was_revoked(&holder, &held));
        daemon_await(FIGURE_lingering, 48 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 48 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 1);
        unmapped(&holder, held.lease);
        got = take_leased(&stranger, NULL);
        ck_assert_uint_ne(got.block, held.block);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 32 * MIB);
        give_back(&stranger, got.lease);
        leave(&holder);
        leave(&stranger);
}
END_TEST

START_TEST(a_smaller_block_serves_if_it_may)
{
        struct party one = join(), other = join();
        struct message_leased idle = lease(&one, 0, 8 * MIB), got;
        struct frame frame = asking(0, 32 * MIB);

        mark_idle(&one, &idle);
        frame.lease.n_least_units = 3;
        say(&other, &frame, MESSAGE_LEASE);
        got = take_leased(&other, NULL);
        ck_assert_uint_eq(got.block, idle.block);
        ck_assert_uint_eq(got.n_bytes, 8 * MIB);
        frame.lease.n_least_units = 5;
        give_back(&other, got.lease);
        say(&other, &frame, MESSAGE_LEASE);
        got = take_leased(&other, NULL);
        ck_assert_uint_eq(got.n_bytes, 32 * MIB);
        give_back(&other, got.lease);
        unmapped(&one, idle.lease);
        leave(&one);
        leave(&other);
}
END_TEST

START_TEST(a_mapped_block_comes_back_known)
{
        struct party party = join();
        struct message_leased first = lease(&party, 0, 8 * MIB);
        struct frame frame = FRAME_NULL, answer;
        struct fdset fds = FDSET_NULL;

        frame.return_lease.lease = first.lease;
        say(&party, &frame, MESSAGE_RETURN);
        frame = asking(0, 8 * MIB);
        frame.lease.flags = PROTO_LEASE_KNOWN;
        say(&party, &frame, MESSAGE_LEASE);
        expect(&party, MESSAGE_KNOWN, &answer, &fds);
        ck_assert_uint_eq(fds.n, 0);
        ck_assert_uint_eq(answer.serial, party.serial);
        ck_assert_uint_eq(answer.known.block, first.block);
        ck_assert_uint_eq(answer.known.n_bytes, 8 * MIB);
        ck_assert_uint_ne(answer.known.slot, first.slot);
        ck_assert(board_is(&party.words[answer.known.slot], answer.known.lease, BOARD_BUSY));
        unmapped(&party, first.lease);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        give_back(&party, answer.known.lease);
        /* It maps it no more. */
        frame = asking(0, 8 * MIB);
        frame.lease.flags = PROTO_LEASE_KNOWN;
        say(&party, &frame, MESSAGE_LEASE);
        first = take_leased(&party, NULL);
        ck_assert_uint_eq(first.block, answer.known.block);
        give_back(&party, first.lease);
        leave(&party);
}
END_TEST

/* One block in use, one that is not. */
static void be_killed(void)
{
        struct party party = join();
        struct message_leased leased;

        (void)lease(&party, 0, 8 * MIB);
        leased = lease(&party, 0, 4 * MIB);
        mark_idle(&party, &leased);
        (void)kill(getpid(), SIGKILL);
}

START_TEST(what_the_dead_did_not_use_is_cached)
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
        party = join();
        got = lease(&party, 0, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 2);
        give_back(&party, got.lease);
        leave(&party);
}
END_TEST

/* Everything that a word can say, of leases that there are, were and will be. */
static void scrawl(const struct party *party, uint64_t round)
{
        for (uint32_t slot = 0; slot < party->n_slots; slot++) {
                uint64_t id = (round + slot) % 64;

                atomic_store(&party->words[slot],
                             slot % 7 == 0 ? (uint64_t)random() << 32 | (uint64_t)random()
                                           : board_word(id, (enum board_state)(round % 5)));
        }
}

START_TEST(a_scrawled_board_harms_nobody)
{
        struct party liar = join(), honest = join(), stranger = join_as_stranger();
        struct message_leased kept = lease(&stranger, 0, 4 * MIB);

        mark_idle(&stranger, &kept);
        for (uint64_t round = 0; round < 200; round++) {
                struct message_leased mine = lease(&honest, 0, 4 * MIB);
                struct frame frame = asking(0, 4 * MIB);
                struct fdset fds = FDSET_NULL;
                uint64_t his;

                scrawl(&liar, round);
                say(&liar, &frame, MESSAGE_LEASE);
                expect(&liar, MESSAGE_LEASED, &frame, &fds);
                fdset_deinit(&fds);
                his = frame.leased.lease;
                scrawl(&liar, round);
                ck_assert(board_is(&honest.words[mine.slot], mine.lease, BOARD_BUSY));
                give_back(&honest, mine.lease);
                give_back(&liar, his);
        }
        ck_assert(board_is(&stranger.words[kept.slot], kept.lease, BOARD_IDLE));
        give_back(&stranger, kept.lease);
        leave(&liar);
        leave(&honest);
        leave(&stranger);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("idle frames");
        TCase *tests = tcase_create("idle frames");

        tcase_set_timeout(tests, 60);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, idle_block_of_a_stopped_holder_serves_another);
        tcase_add_test(tests, who_holds_memory_is_asked_to_mark_what_is_idle);
        tcase_add_test(tests, who_does_not_read_is_asked_once);
        tcase_add_test(tests, a_smaller_block_serves_if_it_may);
        tcase_add_test(tests, a_mapped_block_comes_back_known);
        tcase_add_test(tests, what_the_dead_did_not_use_is_cached);
        if (geteuid() == 0) {
                tcase_add_test(tests, another_tenant_waits_until_it_is_unmapped);
                tcase_add_test(tests, a_scrawled_board_harms_nobody);
        } else {
                (void)puts("# left out: tests of several tenants: they need root");
        }
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
