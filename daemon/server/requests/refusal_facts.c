/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/refusal_facts.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/policy/report/listing.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"
#include "proto/refusal_text.h"

static_assert(sizeof(((struct session *)0)->program) ==
                      sizeof(((struct message_refused_facts *)0)->program_1),
              "a client's name has room");
static_assert(sizeof(((struct pool_row *)0)->name) ==
                      sizeof(((struct message_refused_facts *)0)->name),
              "and so has a pool's");

struct holders {
        uint32_t pool;
        const struct session *largest[REFUSAL_N_NAMED];
        uint64_t n_bytes[REFUSAL_N_NAMED];
        uint64_t n_more, n_more_bytes; /* further clients of the asker's tenant, not named */
        uint64_t n_other_bytes;        /* of other tenants */
        const struct session *late;    /* which may be named and lingers with the most, or NULL */
        uint64_t n_late_bytes;         /* its lingering bytes */
        uint64_t n_unused_bytes;       /* leased, outside of the allocations that clients report */
};

static void add_named(struct holders *holders, const struct session *session, uint64_t n_bytes)
{
        for (unsigned i = 0; i < REFUSAL_N_NAMED; i++) {
                const struct session *smaller = holders->largest[i];
                uint64_t n_smaller_bytes = holders->n_bytes[i];

                if (n_bytes <= n_smaller_bytes)
                        continue;
                holders->largest[i] = session;
                holders->n_bytes[i] = n_bytes;
                session = smaller;
                n_bytes = n_smaller_bytes;
        }
}

static void add_late(struct holders *holders, const struct session *session, uint64_t n_bytes)
{
        if (n_bytes <= holders->n_late_bytes)
                return;
        holders->late = session;
        holders->n_late_bytes = n_bytes;
}

static void add_holder(const struct client *client, void *argument)
{
        struct holders *holders = argument;
        struct session *session = client_owner(client);
        uint64_t n_bytes = client_charged(client, holders->pool);
        uint64_t n_allocated_bytes = board_stats_read(session, holders->pool).allocated;

        holders->n_unused_bytes += n_allocated_bytes ? n_bytes - n_allocated_bytes : 0;
        add_named(holders, session, n_bytes);
        add_late(holders, session, client_unresponsive(client, holders->pool));
}

/* The asker may be told of its own tenant's clients. A refusal costs the same however many clients there are. */
static struct holders find_holders(const struct session *asker, uint32_t pool)
{
        const struct policy *policy = asker->server->policy;
        const struct tenant *tenant = authorization_sees_all(asker) ? NULL
                                                                    : client_tenant(asker->client);
        struct holder_sums named = policy_sum_holders(policy, pool, tenant);
        struct holders holders = {.pool = pool, .n_more = named.n_clients};

        holders.n_more_bytes = named.n_bytes;
        holders.n_other_bytes = policy_sum_holders(policy, pool, NULL).n_bytes - named.n_bytes;
        policy_list_holders(policy, pool, tenant, REFUSAL_N_LOOKS, add_holder, &holders);
        for (unsigned i = 0; i < REFUSAL_N_NAMED && holders.largest[i]; i++) {
                holders.n_more--;
                holders.n_more_bytes -= holders.n_bytes[i];
        }
        return holders;
}

static void put_holders(const struct holders *holders, struct message_refused_facts *facts)
{
        uint64_t *const held[REFUSAL_N_NAMED] = {&facts->held_1, &facts->held_2, &facts->held_3};
        uint32_t *const pids[REFUSAL_N_NAMED] = {&facts->pid_1, &facts->pid_2, &facts->pid_3};
        char *const programs[REFUSAL_N_NAMED] = {facts->program_1, facts->program_2,
                                                 facts->program_3};

        for (unsigned i = 0; i < REFUSAL_N_NAMED && holders->largest[i]; i++) {
                *held[i] = holders->n_bytes[i];
                *pids[i] = (uint32_t)holders->largest[i]->peer.pid;
                memcpy(programs[i], holders->largest[i]->program, sizeof(facts->program_1));
        }
        facts->n_more = holders->n_more;
        facts->held_by_more = holders->n_more_bytes;
        facts->held_by_others = holders->n_other_bytes;
}

/* Reasons in this order: first what the asker cannot influence, last what it can. */
static enum proto_refused reason_of(const struct action *action, const struct pool_stats *stats,
                                    uint64_t n_idle_bytes, uint64_t n_unused_bytes)
{
        uint64_t n_room_bytes = stats->max > stats->reserved ? stats->max - stats->reserved : 0;

        if (action->outcome == GPUMEM_E_LIMIT)
                return PROTO_REFUSED_QUOTA;
        if (action->outcome == GPUMEM_E_DEVICE_FULL)
                return PROTO_REFUSED_DEVICE_FULL;
        if (action->outcome != GPUMEM_E_REFUSED && action->outcome != GPUMEM_E_TIMED_OUT)
                return PROTO_REFUSED_OTHERWISE;
        if (n_room_bytes + stats->lingering + stats->cached >= action->n_bytes && stats->lingering)
                return PROTO_REFUSED_LINGERING;
        if (n_room_bytes + n_idle_bytes >= action->n_bytes && n_idle_bytes)
                return PROTO_REFUSED_IDLE;
        if (n_room_bytes + n_unused_bytes >= action->n_bytes)
                return PROTO_REFUSED_FRAGMENTATION;
        return PROTO_REFUSED_POOL_FULL;
}

static void put_pool(const struct session *asker, uint32_t pool, const struct pool_stats *stats,
                     uint64_t n_idle_bytes, struct message_refused_facts *facts)
{
        memcpy(facts->name, asker->server->pools[pool].row.name, sizeof(facts->name));
        facts->limit_holder = (uint32_t)asker->peer.pid;
        facts->max = stats->max;
        facts->reserved = stats->reserved;
        facts->leased = stats->leased;
        facts->idle = n_idle_bytes;
        facts->registered = stats->registered;
        facts->lingering = stats->lingering;
}

/* Cached bytes that count against the limit because a client keeps them mapped: only that client can free them. */
static uint64_t limit_kept(const struct session *session, const struct limit_hit *hit)
{
        const struct usage *kept = hit->scope == LIMIT_OF_TENANT
                                           ? client_tenant_kept(session->client)
                                           : client_kept(session->client);

        return kept->n[hit->kind];
}

static void put_limit(const struct session *session, const struct limit_hit *hit,
                      struct message_refused_facts *facts)
{
        const struct tenant_key *tenant = client_tenant_key(session->client);
        char container[CGROUP_NAME_MAX];

        facts->limit_scope = hit->scope;
        facts->limit_kind = PROTO_LIMIT_DEVICE_BYTES + hit->kind;
        facts->limit_is_awaited = hit->why == LIMIT_IS_WAITED_FOR;
        facts->limit_used = hit->used;
        facts->limit_max = hit->max;
        facts->limit_kept = limit_kept(session, hit);
        if (hit->scope == LIMIT_OF_TENANT) {
                facts->limit_holder = tenant->uid;
                cgroup_container_name(tenant->realm, container);
                proto_put_text(facts->name, sizeof(facts->name), container);
        } else {
                facts->limit_holder = (uint32_t)session->peer.pid;
                memcpy(facts->name, session->program, sizeof(session->program));
        }
}

/* Why the driver gives nothing. Returns whether that is so. */
static bool put_outage(const struct server *server, const struct action *action,
                       struct message_refused_facts *facts)
{
        const struct server_pool *pool = &server->pools[action->pool];

        if (action->outcome == GPUMEM_E_STALLED) {
                facts->what = PROTO_SAYS_STALLED;
                facts->count = (server_now_ns(server) - pool->driver.state.since_ns) / NS_PER_S;
        } else if (action->outcome == -ENODEV && device_watch_is_barred(pool)) {
                facts->what = PROTO_SAYS_DEVICE_ERROR;
                facts->device = device_watch_state(pool);
        } else if (action->outcome == -ENODEV) {
                facts->what = PROTO_SAYS_DEVICE_LOST;
        } else {
                return false;
        }
        return true;
}

/* Returns whether there are too many. */
static bool put_blocks(const struct server *server, const struct action *action,
                       struct message_refused_facts *facts)
{
        if (!action->of_blocks)
                return false;
        facts->what = PROTO_SAYS_BLOCKS;
        facts->count = policy_open_blocks(server->policy);
        facts->count_max = fd_limits_max_blocks();
        return true;
}

static void put_late(const struct holders *holders, struct message_refused_facts *facts)
{
        facts->what = PROTO_SAYS_LATE;
        if (!holders->late)
                return;
        facts->used_1 = holders->n_late_bytes;
        facts->user_1 = (uint32_t)holders->late->peer.pid;
        memcpy(facts->user_program_1, holders->late->program, sizeof(facts->user_program_1));
}

static void explain(struct server *server, const struct action *action,
                    struct message_refused_facts *facts)
{
        const struct session *asker = client_owner(action->client);
        struct pool_stats stats;
        struct holders holders;
        uint64_t n_idle_bytes;

        if (policy_pool_stats(server->policy, action->pool, &stats)) {
                facts->what = PROTO_SAYS_NO_POOL;
                facts->count = server->n_pools;
                return;
        }
        policy_see_some_idle(server->policy, action->pool, REFUSAL_N_IDLE_LOOKS);
        n_idle_bytes = policy_idle_bytes(server->policy, action->pool);
        holders = find_holders(asker, action->pool);
        facts->reason = reason_of(action, &stats, n_idle_bytes, holders.n_unused_bytes);
        put_holders(&holders, facts);
        if (facts->reason == PROTO_REFUSED_QUOTA)
                put_limit(asker, &action->limit, facts);
        else
                put_pool(asker, action->pool, &stats, n_idle_bytes, facts);
        if (put_blocks(server, action, facts) || put_outage(server, action, facts))
                return;
        if (action->of_deadlock)
                facts->what = PROTO_SAYS_DEADLOCK;
        else if (facts->reason == PROTO_REFUSED_LINGERING && stats.unresponsive)
                put_late(&holders, facts);
        else if (facts->reason == PROTO_REFUSED_DEVICE_FULL)
                device_watch_fill_users(asker, action->pool, stats.reserved, facts);
}

/* A client that asked only for a block that it still maps, or for one that exists, asks again: such requests are
 * frequent, and a look at all leases and clients would delay others. */
static void put_facts(struct server *server, const struct action *action,
                      struct message_refused_facts *facts)
{
        facts->code = action->outcome > 0 ? (uint32_t)action->outcome : GPUMEM_E_DRIVER;
        facts->pool = action->pool;
        facts->n_bytes = action->n_bytes;
        if (action->only_known && action->outcome == GPUMEM_E_REFUSED) {
                facts->what = PROTO_SAYS_UNKNOWN;
        } else if (action->only_cached && action->outcome == GPUMEM_E_REFUSED) {
                facts->what = PROTO_SAYS_UNCACHED;
        } else if (action->outcome == GPUMEM_E_SHUTTING_DOWN) {
                facts->what = PROTO_SAYS_SHUTDOWN;
                facts->count = drain_seconds_left(&server->shutdown.drain, server_now_ns(server));
        } else {
                explain(server, action, facts);
        }
}

/* The reply to the group's last LEASE gives the reason. Only that one is logged: a user has few lines a second. */
static void refuse_part(struct session *session, const struct action *action)
{
        struct frame frame = FRAME_NULL;

        session->n_errors++;
        frame.error.code = action->outcome > 0 ? (uint32_t)action->outcome : GPUMEM_E_DRIVER;
        proto_put_text(frame.error.text, sizeof(frame.error.text),
                       "the last LEASE of the group was refused; its reply gives the reason");
        session_send(session, &frame, MESSAGE_ERROR, action->serial, NULL, 0);
}

/* For clients that do not know facts. */
static void send_text(struct session *session, uint32_t serial,
                      const struct message_refused_facts *facts)
{
        char text[REFUSAL_TEXT_BYTES];
        struct frame frame = FRAME_NULL;

        refusal_text(facts, text);
        if (!(session->features & PROTO_FEATURE_REFUSED)) {
                session_tell_error(session, serial, (int)facts->code, text);
                return;
        }
        frame.refused.code = facts->code;
        frame.refused.reason = facts->reason;
        proto_put_text(frame.refused.text, sizeof(frame.refused.text), text);
        session_send(session, &frame, MESSAGE_REFUSED, serial, NULL, 0);
}

/* An ERROR is logged where it is sent. */
void refuse_lease(struct server *server, const struct action *action)
{
        struct session *session = client_owner(action->client);
        struct frame frame = FRAME_NULL;
        bool is_told = !action->only_known && !action->only_cached &&
                       action->outcome != GPUMEM_E_CANCELLED;

        if (action->of_part) {
                refuse_part(session, action);
                return;
        }
        put_facts(server, action, &frame.refused_facts);
        if (is_told)
                event_log_note_refusal(session, &frame.refused_facts);
        if (is_told && session->features & (PROTO_FEATURE_REFUSED | PROTO_FEATURE_FACTS))
                audit_log_refused_lease(session, &frame.refused_facts);
        if (session->features & PROTO_FEATURE_FACTS)
                session_send(session, &frame, MESSAGE_REFUSED_FACTS, action->serial, NULL, 0);
        else
                send_text(session, action->serial, &frame.refused_facts);
}
