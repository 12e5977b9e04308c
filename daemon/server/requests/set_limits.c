/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/set_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/server/core/settings.h"
#include "daemon/server/pools/aging_timer.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/pools.h"
#include "daemon/server/requests/limit_text.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"
#include "proto/listing.h"

static_assert(PROTO_LIMIT_OF_CLIENT == LIMIT_OF_CLIENT && PROTO_LIMIT_OF_TENANT == LIMIT_OF_TENANT,
              "scopes are the policy's");
static_assert(PROTO_LIMIT_LEASES - PROTO_LIMIT_DEVICE_BYTES == LIMIT_LEASES &&
                      PROTO_LIMIT_PINNED_BYTES - PROTO_LIMIT_DEVICE_BYTES == LIMIT_PINNED_BYTES,
              "kinds are the policy's, from 1");
static_assert(PROTO_LIMIT_NONE == LIMIT_NONE && PROTO_LIMIT_INHERIT == LIMIT_INHERIT,
              "marks are the policy's");

/* Changes that are made together. Of several changes of one limit the last counts. */
struct limit_draft {
        unsigned n;
        struct message_set_limits changes[PROTO_LIMIT_CHANGES_MAX];
};

static void format_most(char text[static LIMIT_TEXT_MAX], const char *what, uint64_t n_bytes)
{
        char most[SIZE_TEXT_MAX];

        (void)snprintf(text, LIMIT_TEXT_MAX, "%s: %s", what, size_format(n_bytes, most));
}

/* The same for what stays in a pool, or free beside it. */
static const char *find_stay_fault(const struct pool_row *pool,
                                   const struct message_set_limits *set,
                                   char text[static LIMIT_TEXT_MAX])
{
        if (set->max == PROTO_LIMIT_NONE) {
                (void)snprintf(text, LIMIT_TEXT_MAX, "a pool's %s cannot be \"none\" (use %s)",
                               limit_kind_name(set->kind),
                               set->kind == PROTO_LIMIT_RETURN_SECONDS ? "a number" : "0");
                return text;
        }
        if (set->kind == PROTO_LIMIT_FREE_BYTES && pool->kind != GPUMEM_DEVICE)
                return "only a device's pool has keep_free_bytes";
        if (set->kind == PROTO_LIMIT_RETURN_SECONDS && set->max > SETTINGS_RETURN_SECONDS_MAX)
                return "a pool's return_after_seconds is at most 31536000, one year";
        return NULL;
}

/* Returns why a change of a pool's limit is wrong; NULL: it is valid. `text` holds a message with numbers. */
static const char *find_pool_fault(const struct server *server,
                                   const struct message_set_limits *set,
                                   char text[static LIMIT_TEXT_MAX])
{
        const struct pool_row *pool;

        if (set->holder >= server->n_pools) {
                (void)snprintf(text, LIMIT_TEXT_MAX,
                               "unknown pool %" PRIu32 " (valid: 0-%" PRIu32 ")", set->holder,
                               server->n_pools - 1);
                return text;
        }
        pool = &server->pools[set->holder].row;
        if (set->kind < PROTO_LIMIT_RESERVED_BYTES)
                return "a pool's limits are max_bytes, min_bytes, keep_cached_bytes, "
                       "keep_free_bytes and return_after_seconds";
        if (set->max == PROTO_LIMIT_INHERIT)
                return "only a tenant's own limit can be reset to the default";
        if (set->kind >= PROTO_LIMIT_MIN_BYTES)
                return find_stay_fault(pool, set, text);
        if (set->max < SETTINGS_POOL_BYTES_MIN)
                return "a pool's max_bytes is at least 2 MiB";
        if (set->max == PROTO_LIMIT_NONE || set->max <= pool->n_capacity_bytes)
                return NULL;
        format_most(text, "a pool's max_bytes is at most its capacity", pool->n_capacity_bytes);
        return text;
}

static const char *find_fault(const struct server *server, const struct message_set_limits *set,
                              char text[static LIMIT_TEXT_MAX])
{
        if (set->max > INT64_MAX && set->max < PROTO_LIMIT_INHERIT)
                return "a limit must be below 2^63, or \"none\"";
        if (set->scope == PROTO_LIMIT_OF_POOL)
                return find_pool_fault(server, set, text);
        if (set->kind >= PROTO_LIMIT_RESERVED_BYTES)
                return "limits of clients and tenants are device_bytes, pinned_bytes and leases";
        if (set->scope == PROTO_LIMIT_OF_CLIENT && set->holder != PROTO_LIMIT_OF_EACH)
                return "a limit of clients holds for every client (not for a single one)";
        if (set->max == PROTO_LIMIT_INHERIT && set->holder == PROTO_LIMIT_OF_EACH)
                return "only a tenant's own limit can be reset to the default";
        return NULL;
}

static uint64_t pool_max(const struct server *server, const struct message_set_limits *set)
{
        const struct pool_row *row = &server->pools[set->holder].row;
        uint64_t max = set->max == PROTO_LIMIT_NONE ? row->n_capacity_bytes : set->max;

        return max & ~(SETTINGS_POOL_BYTES_MIN - 1);
}

/* The pool's limit of that kind after all changes of the draft; `present` is the limit now. */
static uint64_t pool_limit_by(const struct server *server, const struct limit_draft *draft,
                              uint32_t pool, uint32_t kind, uint64_t present)
{
        for (unsigned i = 0; i < draft->n; i++) {
                const struct message_set_limits *set = &draft->changes[i];

                if (set->scope == PROTO_LIMIT_OF_POOL && set->holder == pool && set->kind == kind)
                        present = kind == PROTO_LIMIT_MIN_BYTES ? set->max : pool_max(server, set);
        }
        return present;
}

/* Checks the same as the configuration does. A change that only lowers max_bytes below the present
 * min_bytes is allowed, with a warning. */
static const char *find_minimum_fault(const struct server *server, const struct limit_draft *draft,
                                      char text[static LIMIT_TEXT_MAX])
{
        for (unsigned i = 0; i < draft->n; i++) {
                const struct message_set_limits *set = &draft->changes[i];
                char what[64];
                uint64_t max;

                if (set->kind != PROTO_LIMIT_MIN_BYTES)
                        continue;
                max = pool_limit_by(server, draft, set->holder, PROTO_LIMIT_RESERVED_BYTES,
                                    server->pools[set->holder].row.n_max_bytes);
                if (pool_limit_by(server, draft, set->holder, PROTO_LIMIT_MIN_BYTES, 0) <= max)
                        continue;
                (void)snprintf(what, sizeof(what),
                               "pool/%" PRIu32 ": min_bytes is at most max_bytes", set->holder);
                format_most(text, what, max);
                return text;
        }
        return NULL;
}

static enum limit_kind kind_of(const struct message_set_limits *set)
{
        return (enum limit_kind)(set->kind - PROTO_LIMIT_DEVICE_BYTES);
}

/* The value of the limit after the change. */
static uint64_t max_by(const struct server *server, const struct message_set_limits *set)
{
        const struct limits *table = policy_limits(server->policy);

        if (set->kind >= PROTO_LIMIT_MIN_BYTES)
                return set->max;
        if (set->scope == PROTO_LIMIT_OF_POOL)
                return pool_max(server, set);
        if (set->max != PROTO_LIMIT_INHERIT)
                return set->max;
        return table ? table->tenant.max[kind_of(set)] : LIMIT_NONE;
}

static void set_stock(struct server *server, const struct message_set_limits *set)
{
        struct pool_stock *stock = &server->pools[set->holder].stock;

        if (set->kind == PROTO_LIMIT_CACHED_BYTES)
                stock->keep_bytes = set->max;
        else if (set->kind == PROTO_LIMIT_FREE_BYTES)
                stock->keep_free_bytes = set->max;
        else
                stock->return_after_ns = set->max * NS_PER_S;
        aging_timer_apply(server);
        device_watch_apply(server);
}

static int set_limit(struct session *session, const struct message_set_limits *set)
{
        struct limit_name name = {set->scope, set->holder, set->kind};
        struct server *server = session->server;
        char text[LIMIT_TEXT_MAX];
        int r = 0;

        if (set->kind == PROTO_LIMIT_MIN_BYTES)
                pools_set_min(server, set->holder, set->max);
        else if (set->kind > PROTO_LIMIT_MIN_BYTES)
                set_stock(server, set);
        else if (set->scope == PROTO_LIMIT_OF_POOL)
                pools_set_max(server, set->holder, pool_max(server, set));
        else
                r = policy_set_limit(server->policy, (enum limit_scope)set->scope, set->holder,
                                     kind_of(set), set->max, server_now_ns(server));
        if (r)
                return r;
        (void)limit_text(&name, set->max, text);
        audit_log_act(session, "limit: %s, revision %" PRIu64, text, server->limits_revision);
        event_log_note(session, LISTED_EVENT_LIMITED,
                       set->scope == PROTO_LIMIT_OF_POOL ? set->holder : PROTO_ALL_POOLS, 0, text);
        return 0;
}

/* Warns once for each pool, after all changes. */
static void check_pools(const struct server *server, const struct limit_draft *draft)
{
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                bool is_named = false;

                for (unsigned i = 0; i < draft->n; i++)
                        is_named = is_named || (draft->changes[i].scope == PROTO_LIMIT_OF_POOL &&
                                                draft->changes[i].holder == pool);
                if (is_named)
                        pools_check_min(server, pool);
        }
}

/* One that fails keeps none of the others from being made: the first error is returned. */
static int set_all(struct session *session, const struct limit_draft *draft)
{
        int result = 0, r;

        session->server->limits_revision++;
        for (unsigned i = 0; i < draft->n; i++) {
                r = set_limit(session, &draft->changes[i]);
                if (!result)
                        result = r;
        }
        r = pools_publish_changes(session->server);
        check_pools(session->server, draft);
        return result ? result : r;
}

static int note(struct session *session, const struct message_set_limits *set)
{
        if (!session->draft)
                session->draft = calloc(1, sizeof(*session->draft));
        if (!session->draft)
                return -ENOMEM;
        if (session->draft->n == PROTO_LIMIT_CHANGES_MAX)
                return -E2BIG;
        session->draft->changes[session->draft->n++] = *set;
        return 0;
}

static void refuse(struct session *session, const struct frame *frame, int code, const char *text)
{
        free(session->draft);
        session->draft = NULL;
        session_send_error(session, frame->serial, code, text);
}

static void confirm(struct session *session, const struct frame *frame)
{
        struct frame reply = FRAME_NULL;

        reply.limits_set.max = max_by(session->server, &frame->set_limits);
        reply.limits_set.revision = session->server->limits_revision;
        session_send(session, &reply, MESSAGE_LIMITS_SET, frame->serial, NULL, 0);
}

/* Applies the draft: this was its last change. */
static void finish(struct session *session, const struct frame *frame)
{
        CLEANUP(freep)
        struct limit_draft *draft = steal_ptr(session->draft);
        char text[LIMIT_TEXT_MAX];
        const char *fault = find_minimum_fault(session->server, draft, text);

        if (fault)
                refuse(session, frame, GPUMEM_E_BAD_REQUEST, fault);
        else if (!(frame->set_limits.flags & PROTO_LIMIT_CHECK) && set_all(session, draft))
                refuse(session, frame, GPUMEM_E_TOO_MANY, "out of memory in gpumemd");
        else
                confirm(session, frame);
}

void set_limits_take(struct session *session, const struct frame *frame)
{
        const struct message_set_limits *set = &frame->set_limits;
        char text[LIMIT_TEXT_MAX];
        const char *fault = find_fault(session->server, set, text);
        int r;

        if (!authorization_may_administer(session)) {
                refuse(session, frame, GPUMEM_E_DENIED,
                       "only root, and clients on the admin socket, may set limits");
                return;
        }
        if (fault) {
                refuse(session, frame, GPUMEM_E_BAD_REQUEST, fault);
                return;
        }
        r = note(session, set);
        if (r)
                refuse(session, frame, GPUMEM_E_TOO_MANY,
                       r == -E2BIG ? "too many changes at a time (at most 32)"
                                   : "out of memory in gpumemd");
        else if (set->flags & PROTO_LIMIT_MORE)
                confirm(session, frame);
        else
                finish(session, frame);
}
