/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/askers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/flood/peer.h"

#define EVENTS_MAX     64
#define ANSWERS_A_LOOK 16
#define LOOK_MS        20
#define AGAIN_US       1000

static void note(struct gang_member *member, int r)
{
        if (r && !member->first_error)
                member->first_error = r;
}

static void count(struct gang_member *member, int r)
{
        if (r == GPUMEM_E_TOO_MANY || r == GPUMEM_E_DISCONNECTED)
                member->n_refused++;
        else if (r)
                member->n_failed++;
        note(member, r);
}

static void open_one(struct askers *askers, struct asker *asker)
{
        int r = GPUMEM_E_DISCONNECTED;

        asker->n_owed = 0;
        asker->fd = peer_connect();
        if (asker->fd >= 0)
                r = peer_hello(asker->fd);
        if (r)
                closep(&asker->fd);
        count(askers->member, r);
}

void askers_connect(struct askers *askers, struct gang_member *member, unsigned n)
{
        *askers = (struct askers){.member = member, .n = n < ASKERS_MAX ? n : ASKERS_MAX};
        for (unsigned i = 0; i < askers->n; i++) {
                askers->each[i].index = i;
                open_one(askers, &askers->each[i]);
        }
}

void asker_connect_again(struct askers *askers, struct asker *asker)
{
        closep(&asker->fd);
        open_one(askers, asker);
}

bool asker_send(struct asker *asker, struct frame *frame, enum message_kind kind)
{
        proto_seal(frame, kind, ++asker->serial, 0);
        return asker->fd >= 0 && frame_socket_send(asker->fd, frame, NULL) == 0;
}

bool asker_give_back(struct asker *asker, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        return !lease || asker_send(asker, &frame, MESSAGE_RETURN);
}

void askers_give_back(struct askers *askers, struct asker *asker, const struct frame *reply)
{
        (void)askers;
        if (reply->kind == MESSAGE_LEASED)
                (void)asker_give_back(asker, reply->leased.lease);
}

static void count_reply(struct gang_member *member, const struct frame *reply)
{
        if (reply->kind != MESSAGE_ERROR) {
                member->n_done++;
                return;
        }
        member->n_refused++;
        note(member, (int)reply->error.code);
}

bool asker_call(struct askers *askers, struct asker *asker, struct frame *request,
                enum message_kind kind, struct frame *ret_reply)
{
        int r = asker_send(asker, request, kind) ? 0 : GPUMEM_E_DISCONNECTED;

        do {
                if (!r)
                        r = peer_receive(asker->fd, ret_reply);
        } while (!r && ret_reply->kind == MESSAGE_NOTICE);
        if (r) {
                count(askers->member, r);
                return false;
        }
        count_reply(askers->member, ret_reply);
        return ret_reply->kind != MESSAGE_ERROR;
}

static void ask_owed(struct askers *askers, struct asker *asker, const struct askers_way *way)
{
        while (asker->n_owed && way->ask(askers, asker))
                asker->n_owed--;
}

static void begin(struct askers *askers, struct asker *asker, int poll, unsigned window,
                  const struct askers_way *way)
{
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = asker};

        if (asker->fd < 0)
                return;
        (void)fcntl(asker->fd, F_SETFL, O_NONBLOCK);
        (void)epoll_ctl(poll, EPOLL_CTL_ADD, asker->fd, &event);
        asker->n_owed = window;
        ask_owed(askers, asker, way);
}

/* False: the connection has ended. */
static bool take_answers(struct askers *askers, struct asker *asker, const struct askers_way *way)
{
        for (unsigned i = 0; i < ANSWERS_A_LOOK; i++) {
                struct frame reply;
                int r = peer_receive(asker->fd, &reply);

                if (r == -EAGAIN || r == -EINTR)
                        return true;
                if (r) {
                        count(askers->member, r);
                        return false;
                }
                if (reply.kind == MESSAGE_NOTICE)
                        continue;
                count_reply(askers->member, &reply);
                way->take(askers, asker, &reply);
                asker->n_owed++;
                ask_owed(askers, asker, way);
        }
        return true;
}

void askers_go_on(struct askers *askers, unsigned window, const struct askers_way *way)
{
        int poll = epoll_create1(EPOLL_CLOEXEC);

        for (unsigned i = 0; i < askers->n; i++)
                begin(askers, &askers->each[i], poll, window, way);
        for (;;) {
                struct epoll_event events[EVENTS_MAX];
                int n = epoll_wait(poll, events, EVENTS_MAX, LOOK_MS);

                gang_pass(askers->member);
                for (int i = 0; i < n; i++) {
                        struct asker *asker = events[i].data.ptr;

                        if (take_answers(askers, asker, way))
                                continue;
                        asker_connect_again(askers, asker);
                        begin(askers, asker, poll, window, way);
                        if (asker->fd < 0)
                                (void)usleep(AGAIN_US);
                }
        }
}
