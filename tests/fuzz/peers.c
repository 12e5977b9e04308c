/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/peers.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/fuzz/epoll.h"
#include "tests/fuzz/machine.h"

/* What a peer that does not read is sent before the socket is full. */
#define N_UNREAD_MAX 6

/* A block is known by its id for as long as it lives, and ids are not used again. */
#define N_BLOCKS_MAX 4096

struct peers peers;
static uint32_t owners[N_BLOCKS_MAX]; /* by block: the uid, and 1 */

void peers_begin(void)
{
        peers = (struct peers){.n_tokens = 0};
        memset(owners, 0, sizeof(owners));
        for (unsigned i = 0; i < N_PEERS; i++)
                peers.processes[i].fd = peers.processes[i].pidfd = -1;
}

static struct peer_process *find(int fd)
{
        for (unsigned i = 0; i < N_PEERS; i++) {
                if (peers.processes[i].fd == fd)
                        return &peers.processes[i];
        }
        return NULL;
}

bool peers_say(struct peer_process *process, const struct datagram *datagram)
{
        if (!process->is_open || process->is_cut || process->is_done ||
            process->n_said == N_SAID_MAX)
                return false;
        process->said[process->n_said++] = *datagram;
        epoll_again(process->fd);
        return true;
}

void peers_hang_up(struct peer_process *process)
{
        process->is_reset |= process->is_open && process->n_unread;
        process->is_open = false;
}

/* To who reads from it. */
static bool has_ended(const struct peer_process *process)
{
        return !process->is_open || process->is_cut || process->is_done;
}

static uint32_t ready_of(const struct peer_process *process)
{
        uint32_t ready = 0;

        if (process->n_said || has_ended(process))
                ready |= EPOLLIN;
        if (has_ended(process))
                ready |= EPOLLRDHUP;
        if (!process->is_open || process->is_cut)
                ready |= EPOLLHUP;
        if (process->n_unread < N_UNREAD_MAX || !process->is_open)
                ready |= EPOLLOUT;
        /* The peer has gone with bytes unread. */
        if (!process->is_open && process->n_unread)
                ready |= EPOLLERR;
        return ready;
}

static const struct peer_process *find_by_pidfd(int fd)
{
        for (unsigned i = 0; i < N_PEERS; i++) {
                if (peers.processes[i].pidfd == fd)
                        return &peers.processes[i];
        }
        return NULL;
}

bool peers_find_ready(int fd, uint32_t *ret_events)
{
        const struct peer_process *process = find(fd), *watched = find_by_pidfd(fd);

        if (process)
                *ret_events = ready_of(process);
        else if (watched)
                *ret_events = watched->is_dead ? EPOLLIN : 0;
        return process || watched;
}

struct accepted peers_accept(struct peer_process *process)
{
        struct accepted accepted = {
                .fd = process->fd, .peer_fd = process->fd, .uid = process->uid, .peer = PEER_NULL};

        if (process->is_dead) {
                accepted.fault = -ESRCH;
                return accepted;
        }
        process->pidfd = machine_file();
        accepted.peer = (struct peer){.pid = process->pid,
                                      .uid = process->uid,
                                      .pidfd = process->pidfd,
                                      .process = (uint64_t)process->pid};
        return accepted;
}

int __wrap_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n_fds, int timeout_ms)
{
        const struct peer_process *process = find(fds->fd);

        FUZZ_EXPECT(n_fds == 1 && timeout_ms == 0);
        /* The log asks whether its reader is behind. */
        if (fds->fd == STDERR_FILENO) {
                fds->revents = POLLOUT;
                return 1;
        }
        if (process) {
                fds->revents = has_ended(process) ? POLLRDHUP : 0;
        } else {
                process = find_by_pidfd(fds->fd);
                FUZZ_EXPECT(process);
                fds->revents = process->is_dead ? POLLIN : 0;
        }
        return fds->revents ? 1 : 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
        const struct peer_process *process = find(fd);
        va_list arguments;

        (void)request;
        FUZZ_EXPECT(process);
        va_start(arguments, request);
        *va_arg(arguments, int *) = process->is_open ? (int)process->n_unread : 0;
        va_end(arguments);
        return 0;
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
        struct peer_process *process = find(fd);

        FUZZ_EXPECT(process && how == SHUT_RDWR);
        process->is_cut = true;
        epoll_notice();
        return 0;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
        struct peer_process *process = find(fd);
        struct datagram *datagram = &process->said[0];
        size_t n;

        (void)flags;
        FUZZ_EXPECT(process);
        message->msg_flags = 0;
        if (process->is_reset) {
                process->is_reset = false;
                errno = ECONNRESET;
                return -1;
        }
        if (!process->n_said) {
                errno = EAGAIN;
                return has_ended(process) ? 0 : -1;
        }
        n = datagram->n_bytes;
        if (n > message->msg_iov->iov_len) {
                n = message->msg_iov->iov_len;
                message->msg_flags |= MSG_TRUNC;
        }
        if (datagram->n_fds)
                message->msg_flags |= MSG_CTRUNC;
        memcpy(message->msg_iov->iov_base, datagram->bytes, n);
        memmove(datagram, datagram + 1, --process->n_said * sizeof(*datagram));
        epoll_notice();
        return (ssize_t)n;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags,
                    struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags,
                    struct timespec *timeout)
{
        struct peer_process *process = find(fd);
        unsigned i = 0;

        FUZZ_EXPECT(flags == MSG_DONTWAIT && !timeout);
        while (i < n) {
                ssize_t n_bytes = __wrap_recvmsg(fd, &messages[i].msg_hdr, flags);

                if (n_bytes < 0 && !i)
                        return -1;
                /* The kernel keeps the error of a later one for the next call. */
                if (n_bytes < 0) {
                        process->is_reset = errno == ECONNRESET;
                        break;
                }
                messages[i++].msg_len = (unsigned)n_bytes;
                if (process->goes_in_read)
                        peers_hang_up(process);
        }
        epoll_notice();
        return (int)i;
}

static void learn_lease(struct peer_process *process, uint64_t id, uint32_t slot)
{
        struct peer_lease *lease = &process->leases[process->n_leases % N_LEASES_MAX];

        *lease = (struct peer_lease){id, slot};
        process->n_leases++;
}

/* What one tenant has had no other has, but by what was shared with it. */
static void expect_own(const struct peer_process *process, uint64_t block)
{
        uint32_t *owner = &owners[block];

        FUZZ_EXPECT(block < N_BLOCKS_MAX);
        FUZZ_EXPECT(*owner == 0 || *owner == process->uid + 1);
        *owner = process->uid + 1;
}

static void learn(struct peer_process *process, const struct frame *frame)
{
        switch (frame->kind) {
        case MESSAGE_WELCOME:
                peers.incarnation = frame->welcome.incarnation;
                peers.n_welcomes++;
                process->is_welcome = true;
                break;
        case MESSAGE_LEASED:
                expect_own(process, frame->leased.block);
                learn_lease(process, frame->leased.lease, frame->leased.slot);
                peers.n_leased++;
                break;
        case MESSAGE_KNOWN:
                expect_own(process, frame->known.block);
                learn_lease(process, frame->known.lease, frame->known.slot);
                break;
        case MESSAGE_ATTACHED:
                learn_lease(process, frame->attached.lease, frame->attached.slot);
                break;
        case MESSAGE_SHARED:
                peers.tokens[peers.n_tokens % N_TOKENS_MAX][0] = frame->shared.token_low;
                peers.tokens[peers.n_tokens++ % N_TOKENS_MAX][1] = frame->shared.token_high;
                break;
        default:
                break;
        }
}

static unsigned count_fds(const struct msghdr *message)
{
        const struct cmsghdr *header = message->msg_controllen ? CMSG_FIRSTHDR(message) : NULL;
        unsigned n = header ? (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;

        for (unsigned i = 0; i < n; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
                FUZZ_EXPECT(fd >= 0);
        }
        return n;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        struct peer_process *process = find(fd);
        size_t n = message->msg_iov->iov_len;
        struct proto_reason reason;
        struct frame frame;

        (void)flags;
        FUZZ_EXPECT(process);
        FUZZ_EXPECT(proto_decode(message->msg_iov->iov_base, n, count_fds(message), FROM_DAEMON,
                                 &frame, &reason) == 0);
        errno = EPIPE;
        if (!process->is_open || process->is_cut)
                return -1;
        errno = EAGAIN;
        if (process->n_unread >= N_UNREAD_MAX)
                return -1;
        errno = ETOOMANYREFS;
        if (peers.send_fails && peers.send_fails--)
                return -1;
        process->n_unread += !process->reads;
        epoll_notice();
        learn(process, &frame);
        return (ssize_t)n;
}
