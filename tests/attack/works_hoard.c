/* SPDX-License-Identifier: Apache-2.0 */
/* Many blocks that go back for one request. */
#include "base/size.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"

#define WAIT_MS   10000
#define HOARD_MAX 4096

static struct askers askers;

/* 0: refused. No larger block will do. */
static uint64_t lease(struct asker *asker, uint64_t n_bytes)
{
        struct frame frame = FRAME_NULL, reply;

        frame.lease.n_bytes = n_bytes;
        frame.lease.n_most_units = (uint32_t)(n_bytes / (2 * MIB));
        frame.lease.wait_ms = WAIT_MS;
        return asker_call(&askers, asker, &frame, MESSAGE_LEASE, &reply) ? reply.leased.lease : 0;
}

static void cache(struct asker *asker, unsigned n)
{
        static uint64_t leases[HOARD_MAX];

        for (unsigned i = 0; i < n; i++)
                leases[i] = lease(asker, 2 * MIB);
        for (unsigned i = 0; i < n; i++)
                (void)asker_give_back(asker, leases[i]);
}

void work_hoard(struct gang_member *self)
{
        unsigned n = self->rule->amount < HOARD_MAX ? self->rule->amount : HOARD_MAX;

        askers_connect(&askers, self, 1);
        cache(&askers.each[0], n);
        gang_is_ready(self);
        for (;;) {
                (void)asker_give_back(&askers.each[0], lease(&askers.each[0], self->rule->n_bytes));
                gang_pass(self);
                cache(&askers.each[0], n);
        }
}
