#include "daemon/server/limit_requests.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/size.h"
#include "daemon/server/server.h"
#include "daemon/server/settings.h"
#include "gpumem.h"

static_assert(PROTO_LIMIT_OF_CLIENT == LIMIT_OF_CLIENT && PROTO_LIMIT_OF_TENANT == LIMIT_OF_TENANT,
              "scopes are the policy's");
static_assert(PROTO_LIMIT_LEASES - PROTO_LIMIT_DEVICE_BYTES == LIMIT_LEASES &&
                      PROTO_LIMIT_PINNED_BYTES - PROTO_LIMIT_DEVICE_BYTES == LIMIT_PINNED_BYTES,
              "kinds are the policy's, from 1");
static_assert(PROTO_LIMIT_NONE == LIMIT_NONE && PROTO_LIMIT_INHERIT == LIMIT_INHERIT,
              "marks are the policy's");

void limits_take_list(struct session *session, const struct frame *frame)
{
        CLEANUP(closep)
        int fd = -1;
        struct frame reply = FRAME_NULL;
        uint32_t n_rows;

        if (limit_rows_make(session, &n_rows, &fd)) {
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "the daemon has no memory for a reply");
                return;
        }
        reply.limits_reply.n_rows = n_rows;
        reply.limits_reply.n_row_bytes = sizeof(struct limit_row);
        session_send(session, &reply, MESSAGE_LIMITS_REPLY, frame->serial, &fd, 1);
}

/* What is wrong with a change of a pool's limit. */
static const char *find_pool_fault(const struct server *server,
                                   const struct message_set_limits *set)
{
        if (set->holder >= server->n_pools)
                return "there is no such pool";
        if (set->kind != PROTO_LIMIT_RESERVED_BYTES)
                return "a pool is limited in bytes only";
        if (set->max == PROTO_LIMIT_INHERIT)
                return "only a tenant's own limit can be taken back";
        if (set->max < SETTINGS_POOL_BYTES_MIN)
                return "a pool's limit is 2 MiB at least";
        if (set->max != PROTO_LIMIT_NONE &&
            set->max > server->pools[set->holder].row.n_capacity_bytes)
                return "a pool's limit is at most the memory that there is";
        return NULL;
}

static const char *find_fault(const struct server *server, const struct message_set_limits *set)
{
        if (set->max > INT64_MAX && set->max < PROTO_LIMIT_INHERIT)
                return "a limit is less than 2^63, or none";
        if (set->scope == PROTO_LIMIT_OF_POOL)
                return find_pool_fault(server, set);
        if (set->kind == PROTO_LIMIT_RESERVED_BYTES)
                return "clients and tenants are limited in device_bytes, pinned_bytes and leases";
        if (set->scope == PROTO_LIMIT_OF_CLIENT && set->holder != PROTO_LIMIT_OF_EACH)
                return "a limit of clients is every client's";
        if (set->max == PROTO_LIMIT_INHERIT && set->holder == PROTO_LIMIT_OF_EACH)
                return "only a tenant's own limit can be taken back";
        return NULL;
}

static int set_pool(struct server *server, const struct message_set_limits *set, uint64_t *ret_max)
{
        struct pool_row *row = &server->pools[set->holder].row;
        uint64_t max = set->max == PROTO_LIMIT_NONE ? row->n_capacity_bytes : set->max;
        int r;

        r = server_set_pool_max(server, set->holder, max & ~(SETTINGS_POOL_BYTES_MIN - 1));
        if (!r)
                *ret_max = row->n_max_bytes;
        return r;
}

static int set_party(struct server *server, const struct message_set_limits *set, uint64_t *ret_max)
{
        enum limit_scope scope = (enum limit_scope)set->scope;
        enum limit_kind kind = (enum limit_kind)(set->kind - PROTO_LIMIT_DEVICE_BYTES);
        const struct limit_table *table;
        int r;

        r = policy_set_limit(server->policy, scope, set->holder, kind, set->max,
                             server_now_ns(server));
        if (r)
                return r;
        table = policy_limits(server->policy);
        *ret_max = scope == LIMIT_OF_CLIENT ? table->client.max[kind]
                                            : limit_table_tenant_max(table, set->holder, kind);
        return 0;
}

void limits_take_set(struct session *session, const struct frame *frame)
{
        const struct message_set_limits *set = &frame->set_limits;
        struct server *server = session->server;
        struct frame reply = FRAME_NULL;
        const char *fault = find_fault(server, set);
        int r;

        if (!session_sees_all(session)) {
                session_send_error(session, frame->serial, GPUMEM_E_DENIED,
                                   "only root and the daemon's own user may set limits");
                return;
        }
        if (fault) {
                session_send_error(session, frame->serial, GPUMEM_E_BAD_REQUEST, fault);
                return;
        }
        r = set->scope == PROTO_LIMIT_OF_POOL ? set_pool(server, set, &reply.limits_set.max)
                                              : set_party(server, set, &reply.limits_set.max);
        if (r) {
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "the daemon has no memory for a limit");
                return;
        }
        log_info("a limit was set by process %d of uid %u: scope %" PRIu32 ", holder %" PRIu32
                 ", kind %" PRIu32 ", at most %" PRIu64,
                 (int)session->peer.pid, (unsigned)session->peer.uid, set->scope, set->holder,
                 set->kind, reply.limits_set.max);
        session_send(session, &reply, MESSAGE_LIMITS_SET, frame->serial, NULL, 0);
}
