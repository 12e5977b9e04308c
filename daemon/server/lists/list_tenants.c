/* SPDX-License-Identifier: Apache-2.0 */
/* TENANTS: a row for each tenant and pool. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"
#include "gpumem.h"

struct walk {
        const struct session *asker;
        struct row_buffer buffer;
        struct tenant_row *others; /* one for each pool */
};

static struct tenant_row describe(const struct walk *walk, const struct tenant_listing *tenant)
{
        struct tenant_row row = {
                .uid = tenant->key->uid,
                .pool = tenant->pool,
                .kind = walk->asker->server->pools[tenant->pool].row.kind,
                .tenants = 1,
                .reserved = tenant->leased + tenant->cached + tenant->lingering,
                .reserved_peak = tenant->reserved_peak,
                .leased = tenant->leased,
                .idle = tenant->idle,
                .cached = tenant->cached,
                .lingering = tenant->lingering,
                .charged = tenant->charged,
                .declared = tenant->declared,
                .blocks = tenant->n_blocks,
                .clients = tenant->n_clients,
                .waiting = tenant->n_waiting,
        };

        cgroup_container_name(tenant->key->realm, row.container);
        return row;
}

/* Peaks of several tenants were reached at different times: their sum has no meaning. */
static void add_to_others(struct tenant_row *others, const struct tenant_row *row)
{
        others->uid = LISTING_NOBODY;
        others->pool = row->pool;
        others->kind = row->kind;
        others->reserved_peak = LISTING_UNTOLD;
        others->tenants++;
        others->reserved += row->reserved;
        others->leased += row->leased;
        others->idle += row->idle;
        others->cached += row->cached;
        others->lingering += row->lingering;
        others->charged += row->charged;
        others->declared += row->declared;
        others->blocks += row->blocks;
        others->clients += row->clients;
        others->waiting += row->waiting;
}

static void add_tenant(const struct tenant_listing *tenant, void *argument)
{
        struct walk *walk = argument;
        struct tenant_row row = describe(walk, tenant);

        if (rows_may_show(walk->asker, tenant->tenant))
                row_buffer_add(&walk->buffer, &row);
        else
                add_to_others(&walk->others[tenant->pool], &row);
}

static void answer(struct session *session, const struct frame *frame)
{
        CLEANUP(freep)
        struct tenant_row *others = calloc(session->server->n_pools, sizeof(*others));
        struct walk walk = {.asker = session,
                            .buffer = {.n_row_bytes = sizeof(struct tenant_row)},
                            .others = others};

        (void)policy_see_idle(session->server->policy);
        if (others)
                policy_list_tenants(session->server->policy, NULL, add_tenant, &walk);
        else
                walk.buffer.failed = true;
        for (uint32_t i = 0; others && i < session->server->n_pools; i++) {
                if (others[i].tenants)
                        row_buffer_add(&walk.buffer, &others[i]);
        }
        rows_reply(session, frame, MESSAGE_TENANTS_REPLY, &walk.buffer);
        row_buffer_deinit(&walk.buffer);
}

void list_tenants_take(struct session *session, const struct frame *frame)
{
        list_stats_begin(session, frame, answer);
}
