/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as fast as they are answered. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"

#define N_SIZES       6
#define FREED_AT_ONCE 16

static struct askers askers;

static bool send_lease(struct asker *asker, uint64_t n_bytes)
{
        struct frame frame = FRAME_NULL;

        frame.lease.n_bytes = n_bytes;
        return asker_send(asker, &frame, MESSAGE_LEASE);
}

static bool free_all(struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        frame.free_all_blocks.scope = PROTO_SCOPE_TENANT;
        frame.free_all_blocks.pool = PROTO_ALL_POOLS;
        return asker_send(asker, &frame, MESSAGE_FREE_ALL_BLOCKS);
}

static bool ask_lease(struct askers *all, struct asker *asker)
{
        return send_lease(asker, all->member->rule->n_bytes);
}

static const struct askers_way lease_way = {.ask = ask_lease, .take = askers_give_back};

static bool ask_known(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        frame.lease.n_bytes = all->member->rule->n_bytes;
        frame.lease.flags = PROTO_LEASE_KNOWN;
        return asker_send(asker, &frame, MESSAGE_LEASE);
}

static void return_mapped(struct askers *all, struct asker *asker, const struct frame *reply)
{
        struct frame frame = FRAME_NULL;

        (void)all;
        if (reply->kind == MESSAGE_LEASED || reply->kind == MESSAGE_KNOWN) {
                frame.return_lease.lease = reply->kind == MESSAGE_KNOWN ? reply->known.lease
                                                                        : reply->leased.lease;
                (void)asker_send(asker, &frame, MESSAGE_RETURN);
        }
}

static void hold_leases(struct askers *all, unsigned n, uint64_t n_bytes)
{
        for (unsigned i = 0; i < all->n * n; i++) {
                struct frame frame = FRAME_NULL, reply;

                frame.lease.n_bytes = n_bytes;
                (void)asker_call(all, &all->each[i / n], &frame, MESSAGE_LEASE, &reply);
        }
}

static void ask_on(struct gang_member *self, const struct askers_way *way)
{
        askers_connect(&askers, self, self->rule->amount);
        hold_leases(&askers, self->rule->held, 2 * MIB);
        gang_is_ready(self);
        askers_go_on(&askers, self->rule->window, way);
}

void work_lease(struct gang_member *self)
{
        ask_on(self, &lease_way);
}

void work_stay_mapped(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_known, .take = return_mapped};

        ask_on(self, &way);
}

static void lease_for_ever(struct gang_member *self)
{
        gang_is_ready(self);
        for (;;) {
                struct frame frame = FRAME_NULL, reply;

                frame.lease.n_bytes = self->rule->n_bytes;
                if (asker_call(&askers, &askers.each[0], &frame, MESSAGE_LEASE, &reply) &&
                    !asker_give_back(&askers.each[0], reply.leased.lease))
                        self->n_failed++;
        }
}

void work_lease_alone(struct gang_member *self)
{
        askers_connect(&askers, self, 1);
        lease_for_ever(self);
}

/* poll takes so many as files may be open. Returns how many of n. */
static nfds_t may_open(nfds_t n)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files))
                abort();
        if (files.rlim_cur < n) {
                files.rlim_cur = n < files.rlim_max ? n : files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        return files.rlim_cur < n ? files.rlim_cur : n;
}

/* Waits for its own socket `amount` times, in one call that never returns. */
static void *await_often(void *argument)
{
        const struct gang_member *self = argument;
        nfds_t n = may_open(self->rule->amount);
        struct pollfd *fds = malloc(n * sizeof(*fds));

        if (!fds)
                abort();
        for (nfds_t i = 0; i < n; i++)
                fds[i] = (struct pollfd){.fd = askers.each[0].fd, .events = POLLPRI};
        (void)poll(fds, n, -1);
        free(fds);
        return NULL;
}

void work_await_often(struct gang_member *self)
{
        pthread_t thread;

        askers_connect(&askers, self, 1);
        if (pthread_create(&thread, NULL, await_often, self))
                abort();
        lease_for_ever(self);
}

void work_lease_from(struct gang_member *self, int fd)
{
        askers = (struct askers){.member = self, .n = 1, .each = {{.fd = fd}}};
        lease_for_ever(self);
}

static bool ask_changing(struct askers *all, struct asker *asker)
{
        uint64_t n_bytes = (2 * MIB) << (asker->note++ + asker->index) % N_SIZES;

        (void)all;
        return asker->note % N_SIZES ? send_lease(asker, n_bytes) : free_all(asker);
}

void work_churn(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_changing, .take = askers_give_back};

        ask_on(self, &way);
}

static bool ask_figures(struct askers *all, struct asker *asker)
{
        static const enum message_kind kinds[] = {MESSAGE_STATS,   MESSAGE_CLIENTS, MESSAGE_BLOCKS,
                                                  MESSAGE_TENANTS, MESSAGE_EVENTS,  MESSAGE_LIMITS,
                                                  MESSAGE_POOLS};
        enum message_kind kind = kinds[(asker->note++ + asker->index) % ARRAY_SIZE(kinds)];
        struct frame frame = FRAME_NULL;

        (void)all;
        if (kind == MESSAGE_BLOCKS)
                frame.blocks.pool = PROTO_ALL_POOLS;
        return asker_send(asker, &frame, kind);
}

static void take_nothing(struct askers *all, struct asker *asker, const struct frame *reply)
{
        (void)all;
        (void)asker;
        (void)reply;
}

void work_statistics(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_figures, .take = take_nothing};

        ask_on(self, &way);
}

static bool ask_to_free(struct askers *all, struct asker *asker)
{
        return ++asker->note % FREED_AT_ONCE ? ask_lease(all, asker) : free_all(asker);
}

void work_free_all(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_to_free, .take = askers_give_back};

        ask_on(self, &way);
}

/* A block that can be shared is made for its LEASE. */
static bool ask_and_withdraw(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL, withdrawal = FRAME_NULL;

        (void)all;
        frame.lease.n_bytes = 2 * MIB;
        frame.lease.wait_ms = 10000;
        frame.lease.properties = PROTO_PROPERTY_SHAREABLE;
        if (!asker_send(asker, &frame, MESSAGE_LEASE))
                return false;
        withdrawal.cancel.request = asker->serial;
        (void)asker_send(asker, &withdrawal, MESSAGE_CANCEL);
        return true;
}

void work_withdraw(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_and_withdraw, .take = askers_give_back};

        ask_on(self, &way);
}

static bool ask_denied(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        (void)all;
        switch (asker->note++ % 5) {
        case 0:
                frame.set_limits.scope = PROTO_LIMIT_OF_TENANT;
                frame.set_limits.holder = PROTO_LIMIT_OF_EACH;
                frame.set_limits.kind = PROTO_LIMIT_LEASES;
                frame.set_limits.max = 1;
                return asker_send(asker, &frame, MESSAGE_SET_LIMITS);
        case 1:
                frame.attach.token_low = asker->note;
                return asker_send(asker, &frame, MESSAGE_ATTACH);
        case 2:
                return asker_give_back(asker, asker->note + 1);
        case 3:
                frame.free_all_blocks.scope = PROTO_SCOPE_NODE;
                frame.free_all_blocks.pool = PROTO_ALL_POOLS;
                return asker_send(asker, &frame, MESSAGE_FREE_ALL_BLOCKS);
        default:
                frame.reclaim.uid = 0;
                return asker_send(asker, &frame, MESSAGE_RECLAIM);
        }
}

void work_denied(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_denied, .take = take_nothing};

        ask_on(self, &way);
}

void work_hold(struct gang_member *self)
{
        askers_connect(&askers, self, 1);
        hold_leases(&askers, self->rule->amount, self->rule->n_bytes);
        gang_is_ready(self);
        for (;;)
                gang_pass(self);
}
