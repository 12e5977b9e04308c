/* SPDX-License-Identifier: Apache-2.0 */
/* TENANTS: a row for each tenant and pool. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"

struct tenants {
        struct listing listing;
        struct tenant_row others[]; /* one for each pool */
};

static struct tenant_row describe(const struct server *server, const struct tenant_listing *tenant)
{
        struct tenant_row row = {
                .uid = tenant->key->uid,
                .pool = tenant->pool,
                .kind = server->pools[tenant->pool].row.kind,
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
        struct tenants *tenants = argument;
        const struct session *asker = tenants->listing.walk.asker;
        struct tenant_row row = describe(asker->server, tenant);

        if (rows_may_show(asker, tenant->tenant))
                (void)row_buffer_add(&tenants->listing.rows, &row);
        else
                add_to_others(&tenants->others[tenant->pool], &row);
}

static bool add_tenants(struct walk *walk)
{
        return policy_list_tenants(walk->asker->server->policy, &walk->place, NULL, add_tenant,
                                   walk);
}

static bool add_others(struct walk *walk)
{
        struct tenants *tenants = CONTAINER_OF(walk, struct tenants, listing.walk);

        for (uint32_t i = 0; i < walk->asker->server->n_pools; i++) {
                if (tenants->others[i].tenants)
                        (void)row_buffer_add(&tenants->listing.rows, &tenants->others[i]);
        }
        return false;
}

void list_tenants_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {
                listing_see_idle, add_tenants, listing_add_boards, add_others, listing_write_rows,
                listing_reply,    NULL};
        struct tenants *tenants = calloc(1, sizeof(*tenants) + session->server->n_pools *
                                                                       sizeof(tenants->others[0]));

        if (tenants) {
                row_buffer_init(&tenants->listing.rows, session, sizeof(struct tenant_row));
                tenants->listing.reply_kind = MESSAGE_TENANTS_REPLY;
        }
        listing_begin(session, frame, tenants ? &tenants->listing : NULL, parts);
}
