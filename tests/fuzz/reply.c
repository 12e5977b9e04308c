/* SPDX-License-Identifier: Apache-2.0 */
/* What a client takes from a daemon: its connection and what it reads there, with a daemon that sends
 * whatever it likes. The kernel's part is played here: calls about sockets end in this file, so that
 * nothing is waited for and time passes by being asked for. */
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memfd.h"
#include "client/connection/connection.h"
#include "client/connection/rows.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"
#include "proto/board.h"
#include "proto/listing.h"
#include "tests/fuzz/datagram.h"

const char fuzz_name[] = "reply";

/* Of the WELCOME that fits the files below. */
#define N_SLOTS 16
#define N_POOLS 3
#define N_ROWS  2

enum file {
        FILE_BOARD,
        FILE_POOLS,
        FILE_STATS,
        FILE_CLIENTS,
        FILE_BLOCKS,
        FILE_TENANTS,
        FILE_LIMITS,
        FILE_EVENTS,
        FILE_MISNUMBERED, /* pools in another order */
        FILE_UNSEALED,
        FILE_NONE, /* no memory at all */
        N_FILES,
};

static int files[N_FILES];

static struct {
        struct input *input;
        uint32_t serial; /* of the last request */
        uint32_t asked;  /* of the first one since the last call began; 0: none yet */
        unsigned n_frames;
        uint64_t now_ns;
} daemon_side;

static int make_file(const void *bytes, size_t n_bytes)
{
        int fd;

        FUZZ_EXPECT(memfd_new_constant("rows", bytes, n_bytes, &fd) == 0);
        return fd;
}

static void make_files(void)
{
        static const char some[N_ROWS * 4096] = {1}; /* all zero would be taken back */
        struct pool_row pools[N_POOLS] = {{.id = 0, .kind = GPUMEM_DEVICE, .name = "a device"},
                                          {.id = 1, .kind = GPUMEM_PINNED, .name = "a node"},
                                          {.id = 2, .kind = GPUMEM_PINNED, .name = "another"}};

        FUZZ_EXPECT(memfd_new("board", board_bytes(N_POOLS, N_SLOTS), &files[FILE_BOARD]) == 0);
        files[FILE_POOLS] = make_file(pools, sizeof(pools));
        files[FILE_STATS] = make_file(some, N_ROWS * sizeof(struct stats_row));
        files[FILE_CLIENTS] = make_file(some, N_ROWS * sizeof(struct client_row));
        files[FILE_BLOCKS] = make_file(some, N_ROWS * sizeof(struct block_row));
        files[FILE_TENANTS] = make_file(some, N_ROWS * sizeof(struct tenant_row));
        files[FILE_LIMITS] = make_file(some, N_ROWS * sizeof(struct limit_row));
        files[FILE_EVENTS] = make_file(some, N_ROWS * sizeof(struct event_row));
        pools[2].id = 1;
        files[FILE_MISNUMBERED] = make_file(pools, sizeof(pools));
        files[FILE_UNSEALED] = memfd_create("unsealed", MFD_CLOEXEC);
        files[FILE_NONE] = dup(STDERR_FILENO);
        for (unsigned i = 0; i < N_FILES; i++)
                FUZZ_EXPECT(files[i] >= 0);
}

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t n_bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n_bytes);
int __wrap_shutdown(int fd, int how);
int __wrap_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

int __wrap_socket(int domain, int type, int protocol)
{
        (void)domain;
        (void)type;
        (void)protocol;
        return dup(files[FILE_NONE]);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t n_bytes)
{
        static const int errors[] = {ECONNREFUSED, EINTR, EACCES, ENOENT};
        unsigned how = input_byte(daemon_side.input);

        (void)fd;
        (void)address;
        (void)n_bytes;
        errno = errors[how % ARRAY_SIZE(errors)];
        return how < 250 ? 0 : -1;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n_bytes)
{
        (void)fd;
        (void)level;
        (void)name;
        (void)value;
        (void)n_bytes;
        return 0;
}

int __wrap_shutdown(int fd, int how)
{
        (void)fd;
        (void)how;
        return 0;
}

/* There is news while the input lasts; then the daemon is gone. */
int __wrap_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms)
{
        (void)timeout_ms;
        for (nfds_t i = 0; i < n_fds; i++)
                fds[i].revents = (short)(fds[i].events &
                                         (daemon_side.input->n ? POLLIN | POLLOUT
                                                               : POLLIN | POLLRDHUP));
        return 1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
        (void)clock;
        daemon_side.now_ns += 100000000;
        *ret_time = (struct timespec){.tv_sec = (time_t)(daemon_side.now_ns / 1000000000),
                                      .tv_nsec = (long)(daemon_side.now_ns % 1000000000)};
        return 0;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        const struct frame *frame = message->msg_iov->iov_base;
        struct proto_reason reason;
        struct frame sent;

        (void)fd;
        (void)flags;
        FUZZ_EXPECT(proto_decode(frame, message->msg_iov->iov_len, 0, FROM_CLIENT, &sent,
                                 &reason) == 0);
        daemon_side.serial = sent.serial;
        if (!daemon_side.asked)
                daemon_side.asked = sent.serial;
        switch (input_byte(daemon_side.input)) {
        case 255:
                errno = EPIPE;
                return -1;
        case 254:
                errno = EAGAIN;
                return -1;
        default:
                return (ssize_t)message->msg_iov->iov_len;
        }
}

/* What fits the files, so that what is done with them is met. */
static void fit(struct datagram *datagram, enum file *first)
{
        static const struct {
                enum message_kind kind;
                enum file file;
                uint32_t n_row_bytes;
        } rows[] = {
                {MESSAGE_POOLS_REPLY, FILE_POOLS, sizeof(struct pool_row)},
                {MESSAGE_STATS_REPLY, FILE_STATS, sizeof(struct stats_row)},
                {MESSAGE_CLIENTS_REPLY, FILE_CLIENTS, sizeof(struct client_row)},
                {MESSAGE_BLOCKS_REPLY, FILE_BLOCKS, sizeof(struct block_row)},
                {MESSAGE_TENANTS_REPLY, FILE_TENANTS, sizeof(struct tenant_row)},
                {MESSAGE_LIMITS_REPLY, FILE_LIMITS, sizeof(struct limit_row)},
                {MESSAGE_EVENTS_REPLY, FILE_EVENTS, sizeof(struct event_row)},
        };
        struct frame *frame = datagram_frame(datagram);

        if (frame->kind == MESSAGE_WELCOME) {
                frame->welcome.version = PROTO_VERSION;
                frame->welcome.n_slots = N_SLOTS;
                frame->welcome.n_pools = N_POOLS;
                frame->welcome.n_row_bytes = sizeof(struct pool_row);
                frame->welcome.n_board_bytes = board_bytes(N_POOLS, N_SLOTS);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
                if (frame->kind != rows[i].kind)
                        continue;
                *first = rows[i].file;
                frame->stats_reply.n_rows = rows[i].file == FILE_POOLS ? N_POOLS : N_ROWS;
                frame->stats_reply.n_row_bytes = rows[i].n_row_bytes;
        }
}

static void put_fds(struct msghdr *message, enum file first, unsigned n_fds)
{
        struct cmsghdr *header = CMSG_FIRSTHDR(message);
        int fds[8];

        if (!n_fds) {
                message->msg_controllen = 0;
                return;
        }
        for (unsigned i = 0; i < n_fds; i++) {
                fds[i] = dup(files[(first + i) % N_FILES]);
                FUZZ_EXPECT(fds[i] >= 0);
        }
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
        message->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
}

static ssize_t put_datagram(struct msghdr *message, const struct datagram *datagram,
                            enum file first)
{
        size_t n = datagram->n_bytes;
        unsigned n_fds = datagram->n_fds;

        message->msg_flags = 0;
        if (n > message->msg_iov->iov_len) {
                n = message->msg_iov->iov_len;
                message->msg_flags |= MSG_TRUNC;
        }
        if (n_fds > 4) {
                n_fds = 4;
                message->msg_flags |= MSG_CTRUNC;
        }
        memcpy(message->msg_iov->iov_base, datagram->bytes, n);
        put_fds(message, first, n_fds);
        return (ssize_t)n;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
        static const int errors[] = {EAGAIN, EINTR, ECONNRESET, ENOMEM};
        unsigned how = input_byte(daemon_side.input);
        struct datagram datagram;
        enum file first;

        (void)fd;
        (void)flags;
        if (!daemon_side.input->n) {
                message->msg_controllen = 0;
                return 0;
        }
        if (how >= 252) {
                errno = errors[how % ARRAY_SIZE(errors)];
                return -1;
        }
        daemon_side.n_frames++;
        /* The answer to the first request decides whether there is more to come. */
        if (daemon_side.n_frames == 1 && how < 224)
                datagram_fill(daemon_side.input, MESSAGE_WELCOME, &datagram);
        else
                datagram_read(daemon_side.input, FROM_DAEMON, &datagram);
        first = (enum file)(how / 16 % N_FILES);
        if (how % 16) {
                first = FILE_BOARD;
                fit(&datagram, &first);
        }
        if (how % 8 && datagram_frame(&datagram)->kind != MESSAGE_NOTICE)
                datagram_frame(&datagram)->serial = daemon_side.serial;
        return put_datagram(message, &datagram, first);
}

static void on_notice(void *owner, const struct message_notice *notice)
{
        FUZZ_EXPECT(owner == &daemon_side);
        FUZZ_EXPECT(notice->what >= PROTO_NOTICE_SHUTTING_DOWN &&
                    notice->what <= PROTO_NOTICE_PRESSURE);
}

/* As those who ask for them do. */
static void read_rows(const struct frame *reply, const struct fdset *fds)
{
        static const struct {
                enum message_kind kind;
                size_t n_row_bytes;
        } kinds[] = {
                {MESSAGE_POOLS_REPLY, sizeof(struct pool_row)},
                {MESSAGE_STATS_REPLY, sizeof(struct stats_row)},
                {MESSAGE_CLIENTS_REPLY, sizeof(struct client_row)},
                {MESSAGE_BLOCKS_REPLY, sizeof(struct block_row)},
                {MESSAGE_TENANTS_REPLY, sizeof(struct tenant_row)},
                {MESSAGE_LIMITS_REPLY, sizeof(struct limit_row)},
                {MESSAGE_EVENTS_REPLY, sizeof(struct event_row)},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
                void *rows;

                if (reply->kind != kinds[i].kind)
                        continue;
                if (rows_read(fds->fds[0], reply->stats_reply.n_rows,
                              reply->stats_reply.n_row_bytes, kinds[i].n_row_bytes, &rows) == 0)
                        free(rows);
        }
}

/* As the library does for its program, which asks for the text. */
static void keep_refusal(int r, const struct frame *reply)
{
        struct gpumem_refusal refusal;

        last_error_clear();
        last_error_set_frame(r, reply);
        last_error_keep_of_attach(1, r);
        FUZZ_EXPECT(last_error_get(1, &refusal) == 0 && refusal.code == r);
        FUZZ_EXPECT(memchr(refusal.text, '\0', sizeof(refusal.text)));
}

static void call(struct connection *connection, enum message_kind kind,
                 enum message_kind reply_kind)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct datagram request = {.n_fds = 0};
        struct frame reply = FRAME_NULL;
        int r;

        datagram_fill(daemon_side.input, kind, &request);
        daemon_side.asked = 0;
        r = link_call(connection->link, datagram_frame(&request), kind, reply_kind, &reply, &fds);
        if (r) {
                FUZZ_EXPECT(fds.n == 0);
                keep_refusal(r, &reply);
                return;
        }
        FUZZ_EXPECT(reply.kind == reply_kind ||
                    (reply.kind == MESSAGE_KNOWN && reply_kind == MESSAGE_LEASED));
        /* Meanwhile it may have been asked whether it is there, too. */
        FUZZ_EXPECT(reply.serial == daemon_side.asked && fds.n == reply.n_fds);
        read_rows(&reply, &fds);
}

static void do_one(struct connection *connection)
{
        static const struct {
                enum message_kind kind;
                enum message_kind reply_kind;
        } calls[] = {
                {MESSAGE_LEASE, MESSAGE_LEASED},
                {MESSAGE_STATS, MESSAGE_STATS_REPLY},
                {MESSAGE_POOLS, MESSAGE_POOLS_REPLY},
                {MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY},
                {MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY},
                {MESSAGE_TENANTS, MESSAGE_TENANTS_REPLY},
                {MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED},
                {MESSAGE_SHARE, MESSAGE_SHARED},
                {MESSAGE_SHARE_KEPT, MESSAGE_SHARED},
                {MESSAGE_ATTACH, MESSAGE_ATTACHED},
                {MESSAGE_UNSHARE, MESSAGE_UNSHARED},
                {MESSAGE_LIMITS, MESSAGE_LIMITS_REPLY},
                {MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET},
                {MESSAGE_CONFIGURATION, MESSAGE_CONFIGURATION_IS},
                {MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET},
                {MESSAGE_EVENTS, MESSAGE_EVENTS_REPLY},
                {MESSAGE_RECLAIM, MESSAGE_RECLAIMED},
                {MESSAGE_LOOP, MESSAGE_LOOP_IS},
        };
        struct frame frame = FRAME_NULL;
        char refusal[LINK_REFUSAL_MAX];
        unsigned which = input_below(daemon_side.input, ARRAY_SIZE(calls) + 3);

        if (which < ARRAY_SIZE(calls)) {
                call(connection, calls[which].kind, calls[which].reply_kind);
        } else if (which == ARRAY_SIZE(calls)) {
                frame.unmapped.lease = 1;
                (void)link_send(connection->link, &frame, MESSAGE_UNMAPPED);
        } else if (which == ARRAY_SIZE(calls) + 1) {
                (void)link_read_news(connection->link);
        } else {
                link_refusal(connection->link, refusal);
                FUZZ_EXPECT(memchr(refusal, '\0', sizeof(refusal)));
                (void)link_is_silent(connection->link);
                (void)link_is_over(connection->link);
        }
}

/* The lowest number that is free: a file that was left open raises it. */
static int free_fd(void)
{
        int fd = dup(files[FILE_NONE]);

        FUZZ_EXPECT(fd >= 0);
        (void)close(fd);
        return fd;
}

/* Taken: the client has taken a frame, be it one that refuses. */
enum fuzz_outcome fuzz_run(const uint8_t *bytes, size_t n_bytes)
{
        struct link_hello hello = {.program = "fuzz", .notice = on_notice, .owner = &daemon_side};
        struct input input = {bytes, n_bytes};
        struct connection *connection;
        int first_fd, r;

        if (!files[FILE_BOARD])
                make_files();
        first_fd = free_fd();
        daemon_side.input = &input;
        daemon_side.n_frames = 0;
        daemon_side.now_ns = 0;
        hello.incarnation = input_byte(&input);
        r = connection_new("/a/socket", &hello, 1, &connection);
        if (r == 0) {
                while (input.n)
                        do_one(connection);
                connection_unref(connection);
        }
        FUZZ_EXPECT(free_fd() == first_fd);
        return r == 0 || (r > 0 && r != GPUMEM_E_DISCONNECTED) ? FUZZ_TAKEN : FUZZ_REFUSED;
}
