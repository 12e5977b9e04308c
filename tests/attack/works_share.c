/* SPDX-License-Identifier: Apache-2.0 */
/* Many leases of one block, tokens, and requests that wait. */
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"
#include "tests/flood/peer.h"

#define POLL_US        1000
#define KEPT_MS        100
#define N_TRIES        100
#define RETRY_US       10000
#define ATTACHED_EACH  1023 /* to one block */
#define WAITING_EACH   64
#define STEP_US        5000
#define WAIT_MS        60000
#define PARTS_EACH     64
#define KEPT_BY_GROUPS 15

static struct askers askers;

/* Leases a block and shares it. */
static bool share_block(struct asker *asker, struct frame *ret_shared)
{
        struct frame lease = FRAME_NULL, share = FRAME_NULL, reply;

        lease.lease.n_bytes = 2 * MIB;
        lease.lease.properties = PROTO_PROPERTY_SHAREABLE;
        if (!asker_call(&askers, asker, &lease, MESSAGE_LEASE, &reply))
                return false;
        share.share.lease = reply.leased.lease;
        share.share.n_bytes = 2 * MIB;
        return asker_call(&askers, asker, &share, MESSAGE_SHARE, ret_shared);
}

/* A block, and the frame that attaches to it. */
static struct frame new_token(struct asker *asker)
{
        struct frame shared = FRAME_NULL, token = FRAME_NULL;

        /* It is refused while too many of the user's fds are on the way. */
        for (unsigned i = 0; i < N_TRIES && !share_block(asker, &shared); i++)
                (void)usleep(RETRY_US);
        token.attach.token_low = shared.shared.token_low;
        token.attach.token_high = shared.shared.token_high;
        return token;
}

/* Attaches so often, or detaches; a reply is waited for at each attach only. */
static void attach(struct asker *asker, struct frame *token, unsigned n, uint64_t *leases)
{
        for (unsigned i = 0; i < n; i++) {
                struct frame reply;

                leases[i] = 0;
                if (asker_call(&askers, asker, token, MESSAGE_ATTACH, &reply))
                        leases[i] = reply.attached.lease;
        }
}

static void detach(struct asker *asker, unsigned n, const uint64_t *leases)
{
        for (unsigned i = 0; i < n; i++) {
                struct frame frame = FRAME_NULL;

                frame.detach.lease = leases[i];
                frame.detach.flags = PROTO_RETURN_UNMAPPED;
                if (leases[i])
                        (void)asker_send(asker, &frame, MESSAGE_DETACH);
        }
}

void work_attach(struct gang_member *self)
{
        static uint64_t leases[ASKERS_MAX][WAITING_EACH];
        unsigned n = self->rule->window;
        struct frame token;

        askers_connect(&askers, self, self->rule->amount);
        token = new_token(&askers.each[0]);
        gang_is_ready(self);
        for (;;) {
                for (unsigned i = 0; i < askers.n; i++)
                        attach(&askers.each[i], &token, n, leases[i]);
                for (unsigned i = 0; i < askers.n; i++)
                        detach(&askers.each[i], n, leases[i]);
                gang_pass(self);
        }
}

void work_await_death(struct gang_member *self)
{
        static uint64_t leases[ATTACHED_EACH];

        askers_connect(&askers, self, 1);
        for (unsigned n = 0; n < self->rule->amount; n += ATTACHED_EACH + 1) {
                struct frame token = new_token(&askers.each[0]);
                unsigned n_left = self->rule->amount - n - 1;

                attach(&askers.each[0], &token, n_left < ATTACHED_EACH ? n_left : ATTACHED_EACH,
                       leases);
        }
        gang_is_ready(self);
        for (;;)
                (void)pause();
}

/* The lease ends, and its block stays until the token's time is over. */
static void share_kept(struct asker *asker)
{
        struct frame lease = FRAME_NULL, share = FRAME_NULL, give = FRAME_NULL, reply;

        lease.lease.n_bytes = 2 * MIB;
        lease.lease.properties = PROTO_PROPERTY_SHAREABLE;
        if (!asker_call(&askers, asker, &lease, MESSAGE_LEASE, &reply))
                return;
        give.return_lease.lease = reply.leased.lease;
        give.return_lease.flags = PROTO_RETURN_UNMAPPED;
        share.share_kept.lease = reply.leased.lease;
        share.share_kept.n_bytes = 2 * MIB;
        share.share_kept.keep_ms = KEPT_MS;
        (void)asker_call(&askers, asker, &share, MESSAGE_SHARE_KEPT, &reply);
        (void)asker_send(asker, &give, MESSAGE_RETURN);
}

void work_tokens(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        gang_is_ready(self);
        for (unsigned i = 0;; i = (i + 1) % askers.n) {
                share_kept(&askers.each[i]);
                gang_pass(self);
        }
}

static void begin_waiting(struct asker *asker, uint32_t wait_ms)
{
        struct frame frame = FRAME_NULL;

        frame.lease.n_bytes = askers.member->rule->n_bytes;
        frame.lease.wait_ms = wait_ms;
        if (asker_send(asker, &frame, MESSAGE_LEASE))
                askers.member->n_done++;
        else
                askers.member->n_failed++;
}

static bool ask_small(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        (void)all;
        frame.lease.n_bytes = 2 * MIB;
        return asker_send(asker, &frame, MESSAGE_LEASE);
}

void work_wait(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_small, .take = askers_give_back};
        unsigned n;

        askers_connect(&askers, self, self->rule->amount);
        /* One less: the small ones may have to wait, too. */
        for (unsigned i = 0; i < askers.n; i++) {
                for (n = 0; n < WAITING_EACH - self->rule->window; n++)
                        begin_waiting(&askers.each[i], WAIT_MS);
        }
        gang_is_ready(self);
        askers_go_on(&askers, self->rule->window, &way);
}

static void keep_mapped(struct asker *asker, unsigned n)
{
        uint64_t leases[KEPT_BY_GROUPS] = {0};

        for (unsigned i = 0; i < n; i++) {
                struct frame frame = FRAME_NULL, reply;

                frame.lease.n_bytes = askers.member->rule->n_bytes;
                frame.lease.flags = PROTO_LEASE_KEEPS;
                if (asker_call(&askers, asker, &frame, MESSAGE_LEASE, &reply))
                        leases[i] = reply.leased.lease;
        }
        for (unsigned i = 0; i < n; i++) {
                struct frame frame = FRAME_NULL;

                frame.return_lease.lease = leases[i];
                if (leases[i])
                        (void)asker_send(asker, &frame, MESSAGE_RETURN);
        }
}

static void begin_group(struct asker *asker)
{
        for (unsigned i = 0; i < PARTS_EACH; i++) {
                struct frame frame = FRAME_NULL;

                frame.lease.n_bytes = askers.member->rule->n_bytes;
                frame.lease.wait_ms = WAIT_MS;
                frame.lease.flags = i + 1 < PARTS_EACH ? PROTO_LEASE_MORE : 0;
                if (!asker_send(asker, &frame, MESSAGE_LEASE))
                        askers.member->n_failed++;
        }
        askers.member->n_done++;
}

void work_groups(struct gang_member *self)
{
        askers_connect(&askers, self, self->rule->amount);
        keep_mapped(&askers.each[0], KEPT_BY_GROUPS);
        for (unsigned i = 0; i < askers.n; i++)
                begin_group(&askers.each[i]);
        gang_is_ready(self);
        for (;;)
                (void)pause();
}

/* All requests are sent in half of the time until then. */
static uint64_t common_deadline(struct gang_member *self)
{
        uint64_t n_steps = (uint64_t)self->rule->amount * WAITING_EACH;
        uint64_t together_ns = clock_now_ns() + NS_PER_S + 2 * n_steps * STEP_US * 1000;
        uint_least64_t none = 0;

        (void)atomic_compare_exchange_strong(&gang_words(self)[0], &none, together_ns);
        return gang_words(self)[0];
}

/* Slowly: what the daemon takes at once ends when it should. */
void work_deadlines(struct gang_member *self)
{
        uint64_t deadline_ns;

        askers_connect(&askers, self, self->rule->amount);
        deadline_ns = common_deadline(self);
        for (unsigned n = 0; n < WAITING_EACH; n++) {
                for (unsigned i = 0; i < askers.n; i++) {
                        uint64_t now_ns = clock_now_ns();

                        if (now_ns < deadline_ns)
                                begin_waiting(&askers.each[i],
                                              (uint32_t)((deadline_ns - now_ns) / NS_PER_MS));
                        (void)usleep(STEP_US);
                }
        }
        while (clock_now_ns() + NS_PER_S / 2 < deadline_ns)
                (void)usleep(POLL_US);
        gang_is_ready(self);
        for (;;)
                (void)pause();
}
