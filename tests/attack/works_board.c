/* SPDX-License-Identifier: Apache-2.0 */
/* Boards whose pages are taken away: every second one before its client seals it, so that the daemon's first look at each page
 * takes a page fault; the others again and again, at the lowest priority, so that a daemon that looked at them would wait for
 * the hole. */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "proto/frame_socket.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"
#include "tests/flood/peer.h"

static struct askers askers;

/* Says HELLO, and keeps the board. -1: there is none. */
static int take_board(int fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame hello = FRAME_NULL, reply;

        hello.hello = (struct message_hello){.magic = PROTO_MAGIC, .version = PROTO_VERSION};
        if (peer_send(fd, &hello, MESSAGE_HELLO) ||
            frame_socket_receive(fd, FROM_DAEMON, &reply, &fds, &reason) ||
            reply.kind != MESSAGE_WELCOME)
                return -1;
        return fcntl(fds.fds[0], F_DUPFD_CLOEXEC, 0);
}

static void take_pages(int board)
{
        struct stat st;

        if (fstat(board, &st) == 0)
                (void)fallocate(board, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size);
}

static void take_pages_away(struct gang_member *self)
{
        const struct sched_param none = {.sched_priority = 0};
        int boards[ASKERS_MAX];

        askers = (struct askers){.member = self, .n = self->rule->amount};
        for (unsigned i = 0; i < askers.n; i++) {
                struct frame lease = FRAME_NULL, reply;

                askers.each[i].fd = peer_connect();
                boards[i] = take_board(askers.each[i].fd);
                take_pages(boards[i]);
                if (i % 2)
                        (void)memfd_keep_pages(boards[i]);
                lease.lease.n_bytes = 2 * MIB;
                (void)asker_call(&askers, &askers.each[i], &lease, MESSAGE_LEASE, &reply);
        }
        gang_is_ready(self);
        (void)sched_setscheduler(0, SCHED_IDLE, &none);
        for (;;) {
                for (unsigned i = 0; i < askers.n; i++)
                        take_pages(boards[i]);
                gang_pass(self);
        }
}

/* A block that can be shared is made for its LEASE, which looks for idle ones first. */
static bool ask_new(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        (void)all;
        frame.lease.n_bytes = 2 * MIB;
        frame.lease.properties = PROTO_PROPERTY_SHAREABLE;
        return asker_send(asker, &frame, MESSAGE_LEASE);
}

void work_holes(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_new, .take = askers_give_back};

        if (self->index)
                take_pages_away(self);
        askers_connect(&askers, self, self->rule->window);
        gang_is_ready(self);
        askers_go_on(&askers, self->rule->window, &way);
}
