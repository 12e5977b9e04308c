/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that come, go, say nothing, say what is not allowed, or do not listen. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "proto/frame_socket.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"
#include "tests/flood/peer.h"

#define PAUSE_US        1000
#define SILENT_S        6 /* a HELLO must come within 5 */
#define LEASES_OF_DYING 16
#define FILLED_EACH     64 /* rounds */
#define FIGURES_EACH    25 /* few answers have fds: a user may have only so many on the way */

static struct askers askers;

/* Whether any was taken. */
static bool ask_in_vain(struct asker *asker, struct gang_member *self)
{
        static const enum message_kind kinds[] = {MESSAGE_RESET_PEAKS, MESSAGE_STATS,
                                                  MESSAGE_LIMITS};
        struct frame frame = FRAME_NULL;
        uint64_t n = self->n_done;
        bool is_sent = true;

        for (; is_sent; asker->note++) {
                unsigned i = asker->note % FIGURES_EACH ? 0 : 1 + asker->note / FIGURES_EACH % 2;

                frame = FRAME_NULL;
                if (!i) {
                        frame.reset_peaks.scope = PROTO_SCOPE_TENANT;
                        frame.reset_peaks.pool = PROTO_ALL_POOLS;
                }
                is_sent = asker_send(asker, &frame, kinds[i]);
                self->n_done += is_sent;
        }
        return self->n_done != n;
}

static bool has_ended(const struct asker *asker)
{
        struct pollfd events = {.fd = asker->fd, .events = POLLRDHUP};

        return asker->fd < 0 || poll(&events, 1, 0) > 0;
}

void work_never_read(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        gang_is_ready(self);
        for (bool is_first = true;; is_first = false) {
                bool was_taken = false;

                for (unsigned i = 0; i < askers.n; i++) {
                        if (!is_first && has_ended(&askers.each[i]))
                                asker_connect_again(&askers, &askers.each[i]);
                        if (askers.each[i].fd >= 0)
                                (void)fcntl(askers.each[i].fd, F_SETFL, O_NONBLOCK);
                        was_taken |= ask_in_vain(&askers.each[i], self);
                }
                gang_pass(self);
                if (!was_taken)
                        (void)usleep(PAUSE_US);
        }
}

/* The kernel tells the daemon with each shutdown that the connection's end has come, though it knows that already. */
void work_nag(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        for (unsigned i = 0; i < askers.n; i++) {
                if (askers.each[i].fd < 0)
                        continue;
                (void)fcntl(askers.each[i].fd, F_SETFL, O_NONBLOCK);
                (void)ask_in_vain(&askers.each[i], self);
        }
        gang_is_ready(self);
        for (;;) {
                for (unsigned i = 0; i < askers.n; i++)
                        (void)shutdown(askers.each[i].fd, i % 2 ? SHUT_WR : SHUT_RD);
                gang_pass(self);
        }
}

/* Frames without an answer, as many as its socket takes. */
static void fill(struct asker *asker)
{
        struct frame frame;

        do {
                frame = FRAME_NULL;
                frame.cancel.request = asker->serial;
        } while (asker_send(asker, &frame, MESSAGE_CANCEL));
}

void work_fill(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        for (unsigned i = 0; i < askers.n; i++) {
                if (askers.each[i].fd >= 0)
                        (void)fcntl(askers.each[i].fd, F_SETFL, O_NONBLOCK);
        }
        self->n_done++;
        gang_is_ready(self);
        for (unsigned round = 0;; round++) {
                for (unsigned i = 0; i < askers.n; i++) {
                        if (round % FILLED_EACH == 0)
                                fill(&askers.each[i]);
                        (void)shutdown(askers.each[i].fd, SHUT_RD);
                }
                gang_pass(self);
        }
}

void work_deaf(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        self->n_done++;
        gang_is_ready(self);
        for (;;) {
                for (unsigned i = 0; i < askers.n; i++)
                        (void)shutdown(askers.each[i].fd, SHUT_RD);
                gang_pass(self);
        }
}

/* Frames that are wrong in one way each. */
static void send_wrong(int fd, unsigned which)
{
        struct frame frame = FRAME_NULL;

        proto_seal(&frame, MESSAGE_LEASE, 1, 0);
        switch (which % 5) {
        case 0:
                frame.n_bytes--;
                break;
        case 1:
                frame.flags = UINT32_MAX;
                break;
        case 2:
                frame.lease.properties = UINT32_MAX;
                break;
        case 3:
                frame.kind = MESSAGE_LEASED;
                break;
        default:
                frame.n_fds = 200;
                break;
        }
        (void)send(fd, &frame, frame.n_bytes, MSG_NOSIGNAL);
}

void work_malformed(struct gang_member *self)
{
        gang_is_ready(self);
        for (unsigned i = self->index;; i++) {
                struct frame reply;
                int fd = peer_connect();

                gang_pass(self);
                if (fd < 0) {
                        self->n_failed++;
                        continue;
                }
                if (i % 2 && peer_hello(fd))
                        self->n_refused++;
                send_wrong(fd, i / 2);
                while (peer_receive(fd, &reply) == 0)
                        continue;
                self->n_done++;
                closep(&fd);
        }
}

void work_connect(struct gang_member *self)
{
        uint64_t step_ns = self->rule->amount ? NS_PER_S / self->rule->amount : 0, next_ns;

        gang_is_ready(self);
        next_ns = clock_now_ns();
        for (;;) {
                int fd = peer_connect();

                gang_pass(self);
                if (fd < 0)
                        self->n_failed++;
                else
                        self->n_done++;
                closep(&fd);
                next_ns += step_ns;
                while (step_ns && clock_now_ns() < next_ns)
                        (void)usleep(50);
        }
}

/* The kernel looks at all of them when the daemon closes a pidfd of this process: from Linux 6.9 on these have one file. */
static void lock_self(unsigned n)
{
        int fd = pidfd_open(getpid(), 0);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

        for (unsigned i = 0; i < n; i++) {
                lock.l_start = 2 * (n - i);
                if (fcntl(fd, F_SETLK, &lock))
                        abort();
        }
}

void work_lock_self(struct gang_member *self)
{
        lock_self(self->rule->amount);
        gang_is_ready(self);
        for (;;) {
                int fd = peer_connect();

                gang_pass(self);
                if (fd >= 0 && peer_hello(fd) == 0)
                        self->n_done++;
                else
                        self->n_refused++;
                closep(&fd);
        }
}

void work_silent(struct gang_member *self)
{
        unsigned n = self->rule->amount;

        for (bool is_first = true;; is_first = false) {
                askers = (struct askers){.member = self, .n = n};
                for (unsigned i = 0; i < n; i++) {
                        askers.each[i].fd = peer_connect();
                        self->n_failed += askers.each[i].fd < 0;
                        self->n_done += askers.each[i].fd >= 0;
                }
                if (is_first)
                        gang_is_ready(self);
                (void)sleep(SILENT_S);
                for (unsigned i = 0; i < n; i++)
                        closep(&askers.each[i].fd);
        }
}

static void lease_and_die(unsigned n_connections)
{
        struct gang_member uncounted = {.n_done = 0};

        askers_connect(&askers, &uncounted, n_connections);
        for (unsigned i = 0; i < askers.n * LEASES_OF_DYING; i++) {
                struct frame frame = FRAME_NULL, reply;

                frame.lease.n_bytes = 2 * MIB;
                (void)asker_call(&askers, &askers.each[i % askers.n], &frame, MESSAGE_LEASE,
                                 &reply);
        }
        (void)raise(SIGKILL);
}

void work_die(struct gang_member *self)
{
        gang_is_ready(self);
        for (;;) {
                pid_t pid = gang_fork();

                if (pid == 0)
                        lease_and_die(self->rule->amount);
                gang_pass(self);
                if (pid > 0 && waitpid(pid, NULL, 0) == pid)
                        self->n_done++;
                else
                        self->n_failed++;
        }
}
