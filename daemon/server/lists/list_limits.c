/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/lists/rows.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/request_walk.h"

struct limit_list {
        struct walk walk;
        struct row_buffer rows;
        uint64_t revision; /* of the limits, at the beginning */
        uint32_t n_tenants;
        bool *has_tenant; /* by the tenants' numbers: its rows were added */
        size_t n_uids;
        bool *has_uid; /* by the places in the table of limits */
};

static void add(struct limit_list *list, const struct limit_row *row, const char *name)
{
        struct limit_row named = *row;

        proto_put_name(named.name, sizeof(named.name), name);
        (void)row_buffer_add(&list->rows, &named);
}

/* Adds a row for each limit of the holder that is set, or exempts it from a default. `shown` tells for
 * which kinds "none" is shown, too. `usage` is NULL for a default. */
static void add_limits(struct limit_list *list, uint32_t scope, uint32_t holder, const char *name,
                       const struct limit_set *limits, const struct usage *usage, unsigned shown)
{
        for (uint32_t kind = 0; kind < LIMIT_N_KINDS; kind++) {
                struct limit_row row = {
                        .scope = scope,
                        .kind = PROTO_LIMIT_DEVICE_BYTES + kind,
                        .holder = holder,
                        .used = usage ? usage->n[kind] : 0,
                        .max = limits->max[kind],
                };

                if (row.max != LIMIT_NONE || shown & 1u << kind)
                        add(list, &row, name);
        }
}

static void add_tenant(struct limit_list *list, const struct limits *table, uint32_t uid,
                       const char *container, const struct usage *usage)
{
        unsigned exempt = 0;
        struct limit_set limits;

        for (uint32_t kind = 0; kind < LIMIT_N_KINDS; kind++) {
                limits.max[kind] = limits_tenant_max(table, uid, (enum limit_kind)kind);
                if (limits_own_max(table, uid, (enum limit_kind)kind) == LIMIT_NONE)
                        exempt |= 1u << kind;
        }
        add_limits(list, PROTO_LIMIT_OF_TENANT, uid, container, &limits, usage, exempt);
}

/* Without what is as it is by default. */
static void add_stock(struct limit_list *list, const struct server_pool *pool,
                      const struct pool_stats *stats)
{
        const struct limit_row all[] = {
                {.kind = PROTO_LIMIT_MIN_BYTES, .max = pool->min_bytes},
                {.kind = PROTO_LIMIT_CACHED_BYTES,
                 .max = pool->stock.keep_bytes,
                 .used = stats->cached},
                {.kind = PROTO_LIMIT_FREE_BYTES, .max = pool->stock.keep_free_bytes},
                {.kind = PROTO_LIMIT_RETURN_SECONDS, .max = pool->stock.return_after_ns / NS_PER_S},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
                struct limit_row row = all[i];

                row.scope = PROTO_LIMIT_OF_POOL;
                row.holder = pool->row.id;
                if (row.max !=
                    (row.kind == PROTO_LIMIT_RETURN_SECONDS ? SETTINGS_RETURN_SECONDS : 0))
                        add(list, &row, pool->row.name);
        }
}

static void add_pools(struct limit_list *list, const struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                const struct pool_row *pool = &server->pools[i].row;
                struct pool_stats stats;
                struct limit_row row = {
                        .scope = PROTO_LIMIT_OF_POOL,
                        .kind = PROTO_LIMIT_RESERVED_BYTES,
                        .holder = pool->id,
                };

                if (policy_pool_stats(server->policy, i, &stats))
                        continue;
                row.used = stats.reserved;
                row.max = stats.max;
                add(list, &row, pool->name);
                add_stock(list, &server->pools[i], &stats);
        }
}

/* Returns whether this tenant has no rows yet. */
static bool is_new(struct limit_list *list, const struct tenant *tenant)
{
        uint32_t number = tenant_number(tenant);
        bool was_there;

        if (number >= list->n_tenants) {
                uint32_t n = 2 * number + 64;
                bool *more = row_buffer_calloc(&list->rows, n, sizeof(*more));

                if (!more)
                        return false;
                if (list->has_tenant)
                        memcpy(more, list->has_tenant, list->n_tenants * sizeof(*more));
                free(list->has_tenant);
                list->has_tenant = more;
                list->n_tenants = n;
        }
        was_there = list->has_tenant[number];
        list->has_tenant[number] = true;
        return !was_there;
}

static void add_session(struct limit_list *list, const struct session *session,
                        const struct limits *table)
{
        const struct tenant_key *key = client_tenant_key(session->client);
        size_t at = limits_find_uid(table, key->uid);
        char container[CGROUP_NAME_MAX];

        cgroup_container_name(key->realm, container);
        if (at < list->n_uids)
                list->has_uid[at] = true;
        if (is_new(list, client_tenant(session->client)))
                add_tenant(list, table, key->uid, container, client_tenant_usage(session->client));
        add_limits(list, PROTO_LIMIT_OF_CLIENT, (uint32_t)session->peer.pid, session->name,
                   &table->client, client_usage(session->client), 0);
}

static const struct limits *table_of(const struct walk *walk)
{
        return policy_limits(walk->asker->server->policy);
}

static bool begin_list(struct walk *walk)
{
        struct limit_list *list = CONTAINER_OF(walk, struct limit_list, walk);
        const struct server *server = walk->asker->server;
        const struct limits *table = table_of(walk);

        list->revision = server->limits_revision;
        row_buffer_clear(&list->rows);
        list->n_uids = table ? table->n_uids : 0;
        free(list->has_uid);
        list->has_uid = row_buffer_calloc(&list->rows, list->n_uids + 1, sizeof(*list->has_uid));
        free(list->has_tenant);
        list->has_tenant = NULL;
        list->n_tenants = 0;
        add_pools(list, server);
        if (!table)
                return false;
        add_limits(list, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, "", &table->client, NULL, 0);
        add_limits(list, PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_OF_EACH, "", &table->tenant, NULL, 0);
        return false;
}

/* The limits have changed: the list is begun again. Only administrators change them. */
static bool is_outdated(const struct walk *walk)
{
        const struct limit_list *list = CONTAINER_OF(walk, const struct limit_list, walk);

        return list->revision != walk->asker->server->limits_revision;
}

static bool add_sessions(struct walk *walk)
{
        struct limit_list *list = CONTAINER_OF(walk, struct limit_list, walk);
        const struct session *session;

        if (is_outdated(walk) || !table_of(walk) || list->rows.failed)
                return false;
        while ((session = walk_next_session(walk))) {
                if (session_has_client(session) &&
                    rows_may_show(walk->asker, client_tenant(session->client)))
                        add_session(list, session, table_of(walk));
        }
        return walk_has_more_sessions(walk);
}

/* Tenants that have limits, but no clients now. */
static bool add_absent(struct walk *walk)
{
        struct limit_list *list = CONTAINER_OF(walk, struct limit_list, walk);
        const struct limits *table = table_of(walk);
        const struct usage nothing = {{0}};

        if (is_outdated(walk) || !authorization_sees_all(walk->asker) || list->rows.failed)
                return false;
        for (; walk->place.next < list->n_uids && walk->place.n_items; walk->place.n_items--) {
                uint32_t i = walk->place.next++;

                if (!list->has_uid[i])
                        add_tenant(list, table, table->uids[i].uid, "", &nothing);
        }
        return walk->place.next < list->n_uids;
}

static bool write_rows(struct walk *walk)
{
        struct limit_list *list = CONTAINER_OF(walk, struct limit_list, walk);

        return !is_outdated(walk) && row_buffer_write_some(&list->rows);
}

static void reply(struct limit_list *list)
{
        struct session *session = list->walk.asker;
        CLEANUP(closep)
        int fd = -1;
        struct frame frame = FRAME_NULL;
        int r;

        r = row_buffer_take_file(&list->rows, session, &fd);
        if (r) {
                row_buffer_refuse(&list->rows, session, list->walk.request.serial, r);
                return;
        }
        frame.limits_reply.n_rows = list->rows.n_rows;
        frame.limits_reply.revision = list->revision;
        frame.limits_reply.n_row_bytes = sizeof(struct limit_row);
        session_send(session, &frame, MESSAGE_LIMITS_REPLY, list->walk.request.serial, &fd, 1);
}

static bool answer(struct walk *walk);

static bool (*const parts[])(struct walk *walk) = {begin_list, add_sessions, add_absent,
                                                   write_rows, answer,       NULL};

static bool answer(struct walk *walk)
{
        if (is_outdated(walk)) {
                walk->parts = parts;
                walk->place.next = 0;
                return true;
        }
        reply(CONTAINER_OF(walk, struct limit_list, walk));
        return false;
}

static void limit_list_free(struct walk *walk)
{
        struct limit_list *list = CONTAINER_OF(walk, struct limit_list, walk);

        row_buffer_clear(&list->rows);
        free(list->has_tenant);
        free(list->has_uid);
        free(list);
}

void list_limits_take(struct session *session, const struct frame *frame)
{
        struct limit_list *list = calloc(1, sizeof(*list));

        if (!list) {
                session_refuse_for_memory(session, frame->serial);
                return;
        }
        row_buffer_init(&list->rows, session, sizeof(struct limit_row));
        walk_begin(session, frame, &list->walk, parts, limit_list_free);
}
