/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_limits.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/lists/rows.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/reply_files.h"
#include "gpumem.h"

struct rows {
        struct limit_row *rows;
        uint32_t n;
        uint32_t n_places;
};

static int add(struct rows *rows, const struct limit_row *row, const char *name)
{
        if (rows->n == rows->n_places) {
                uint32_t n_places = rows->n_places ? 2 * rows->n_places : 16;
                struct limit_row *more = realloc(rows->rows, n_places * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                rows->rows = more;
                rows->n_places = n_places;
        }
        if (rows->n == PROTO_ROWS_MAX)
                return -E2BIG;
        rows->rows[rows->n] = *row;
        proto_put_text(rows->rows[rows->n].name, sizeof(row->name), name);
        rows->n++;
        return 0;
}

/* Adds a row for each limit of the holder that is set, or exempts it from a default. `shown` tells for
 * which kinds "none" is shown, too. `usage` is NULL for a default. */
static int add_limits(struct rows *rows, uint32_t scope, uint32_t holder, const char *name,
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
                int r;

                if (row.max == LIMIT_NONE && !(shown & 1u << kind))
                        continue;
                r = add(rows, &row, name);
                if (r)
                        return r;
        }
        return 0;
}

static int add_tenant(struct rows *rows, const struct limits *table, uint32_t uid,
                      const char *container, const struct usage *usage)
{
        unsigned exempt = 0;
        struct limit_set limits;

        for (uint32_t kind = 0; kind < LIMIT_N_KINDS; kind++) {
                limits.max[kind] = limits_tenant_max(table, uid, (enum limit_kind)kind);
                if (limits_own_max(table, uid, (enum limit_kind)kind) == LIMIT_NONE)
                        exempt |= 1u << kind;
        }
        return add_limits(rows, PROTO_LIMIT_OF_TENANT, uid, container, &limits, usage, exempt);
}

static int add_pools(struct rows *rows, const struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                const struct pool_row *pool = &server->pools[i].row;
                struct pool_stats stats;
                struct limit_row row = {
                        .scope = PROTO_LIMIT_OF_POOL,
                        .kind = PROTO_LIMIT_RESERVED_BYTES,
                        .holder = pool->id,
                };
                int r;

                r = policy_pool_stats(server->policy, i, &stats);
                if (r)
                        return err_fold(r);
                row.used = stats.reserved;
                row.max = stats.max;
                r = add(rows, &row, pool->name);
                row.kind = PROTO_LIMIT_MIN_BYTES;
                row.used = 0;
                row.max = server->pools[i].min_bytes;
                if (!r && row.max)
                        r = add(rows, &row, pool->name);
                if (r)
                        return r;
        }
        return 0;
}

static bool is_here(const struct server *server, uint32_t uid)
{
        const struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                if (session_has_client(session) && session->peer.uid == uid)
                        return true;
        }
        return false;
}

static int add_session(struct rows *rows, const struct session *session, const struct limits *table)
{
        const struct tenant_key *key = client_tenant_key(session->client);
        char container[CGROUP_NAME_MAX];
        int r = 0;

        cgroup_container_name(key->realm, container);
        if (client_is_first_listed(session->client, session->server->n_limit_lists))
                r = add_tenant(rows, table, key->uid, container,
                               client_tenant_usage(session->client));
        if (r)
                return r;
        return add_limits(rows, PROTO_LIMIT_OF_CLIENT, (uint32_t)session->peer.pid,
                          session->program, &table->client, client_usage(session->client), 0);
}

/* Adds a tenant that has limits, but no clients now. */
static int add_absent(struct rows *rows, const struct session *asker, const struct limits *table)
{
        const struct usage nothing = {{0}};

        for (size_t i = 0; i < table->n_uids; i++) {
                uint32_t uid = table->uids[i].uid;
                int r;

                if (!authorization_sees_all(asker) || is_here(asker->server, uid))
                        continue;
                r = add_tenant(rows, table, uid, "", &nothing);
                if (r)
                        return r;
        }
        return 0;
}

static int add_parties(struct rows *rows, const struct session *asker, const struct limits *table)
{
        const struct session *session;
        int r = add_limits(rows, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH, "", &table->client,
                           NULL, 0);

        if (!r)
                r = add_limits(rows, PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_OF_EACH, "", &table->tenant,
                               NULL, 0);
        if (!r)
                r = add_absent(rows, asker, table);
        LIST_FOREACH (session, &asker->server->sessions, link) {
                if (!r && session_has_client(session) &&
                    rows_may_show(asker, client_tenant(session->client)))
                        r = add_session(rows, session, table);
        }
        return r;
}

/* Makes a file (reply_files.h) with a row for each limit that the session may see. */
static int make(struct session *session, uint32_t *ret_n_rows, int *ret_fd)
{
        const struct limits *table = policy_limits(session->server->policy);
        struct rows rows = {.n = 0};
        int r;

        session->server->n_limit_lists++;
        r = add_pools(&rows, session->server);
        if (!r && table)
                r = add_parties(&rows, session, table);
        if (!r)
                r = reply_files_make(session, rows.rows, rows.n * sizeof(*rows.rows), ret_fd);
        if (!r)
                *ret_n_rows = rows.n;
        free(rows.rows);
        return r;
}

void list_limits_take(struct session *session, const struct frame *frame)
{
        CLEANUP(closep)
        int fd = -1;
        struct frame reply = FRAME_NULL;
        uint32_t n_rows;

        if (make(session, &n_rows, &fd)) {
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "out of memory in gpumemd");
                return;
        }
        reply.limits_reply.n_rows = n_rows;
        reply.limits_reply.revision = session->server->limits_revision;
        reply.limits_reply.n_row_bytes = sizeof(struct limit_row);
        session_send(session, &reply, MESSAGE_LIMITS_REPLY, frame->serial, &fd, 1);
}
