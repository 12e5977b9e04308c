/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/refusal_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/policy/report/listing.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/requests/limit_text.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"

#define NS_PER_S UINT64_C(1000000000)

struct text {
        char *bytes;
        size_t n_bytes;
        size_t length;
};

static void append(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);

/* Text beyond the buffer's size is cut. */
static void append(struct text *text, const char *format, ...)
{
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vsnprintf(text->bytes + text->length, text->n_bytes - text->length, format, arguments);
        va_end(arguments);
        if (n > 0)
                text->length += (size_t)n;
        if (text->length >= text->n_bytes)
                text->length = text->n_bytes - 1;
}

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
        const struct session *session = client_owner(client);
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

static void append_holders(struct text *text, const struct holders *holders)
{
        char size[SIZE_TEXT_MAX];
        const char *before = ". Held by ";

        for (unsigned i = 0; i < REFUSAL_N_NAMED && holders->largest[i]; i++) {
                append(text, "%s%s (pid %d) %s", before, holders->largest[i]->program,
                       (int)holders->largest[i]->peer.pid, size_format(holders->n_bytes[i], size));
                before = ", ";
        }
        if (holders->n_more) {
                append(text, "%s%" PRIu64 " more %s", before, holders->n_more,
                       size_format(holders->n_more_bytes, size));
                before = ", ";
        }
        if (holders->n_other_bytes)
                append(text, "%sother tenants %s", before,
                       size_format(holders->n_other_bytes, size));
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

static const char *name_of(enum proto_refused reason)
{
        static const char *const names[] = {
                [PROTO_REFUSED_QUOTA] = "a limit",
                [PROTO_REFUSED_POOL_FULL] = "the pool is full",
                [PROTO_REFUSED_DEVICE_FULL] = "the driver has no memory left",
                [PROTO_REFUSED_LINGERING] = "revoked memory is still mapped",
                [PROTO_REFUSED_IDLE] = "this request may not take the idle memory, or not yet",
                [PROTO_REFUSED_FRAGMENTATION] = "free memory is split among blocks that are in use",
        };

        return names[reason];
}

/* A request above the limit itself fails even when all memory comes back. */
static bool is_beyond(const struct action *action)
{
        return action->outcome == GPUMEM_E_TOO_LARGE ||
               (action->outcome == GPUMEM_E_LIMIT && action->limit.kind != LIMIT_LEASES &&
                action->n_bytes > action->limit.max);
}

static const char *advice_for(enum proto_refused reason)
{
        static const char *const advice[] = {
                [PROTO_REFUSED_QUOTA] = "free memory, or have the limit raised (gpumemctl limits)",
                [PROTO_REFUSED_POOL_FULL] = "wait longer (wait_ms), free memory, or end a holder",
                [PROTO_REFUSED_DEVICE_FULL] = "see what else is on the device (nvidia-smi)",
                [PROTO_REFUSED_LINGERING] = "wait longer (wait_ms): it comes back when unmapped",
                [PROTO_REFUSED_IDLE] =
                        "wait (wait_ms): idle memory is taken only for requests that wait",
                [PROTO_REFUSED_FRAGMENTATION] =
                        "request smaller sizes, or free all allocations of a block",
        };

        return advice[reason];
}

static const char *advice(const struct session *asker, const struct action *action,
                          enum proto_refused reason)
{
        if (reason == PROTO_REFUSED_QUOTA && limit_kept(asker, &action->limit))
                return "gpumem_flush where it is registered, free memory, or have the limit raised "
                       "(gpumemctl limits)";
        return advice_for(reason);
}

/* Names an unresponsive process: it is stopped or hangs, and its memory comes back only when it runs on or
 * ends. */
static void append_late(struct text *text, const struct holders *holders)
{
        char size[SIZE_TEXT_MAX];

        if (holders->late)
                append(text, ", %s of it by %s (pid %d), which does not answer",
                       size_format(holders->n_late_bytes, size), holders->late->program,
                       (int)holders->late->peer.pid);
        else
                append(text, " by a process that does not answer");
}

static void append_stats(struct text *text, const struct server *server,
                         const struct action *action, const struct pool_stats *stats,
                         uint64_t n_idle_bytes)
{
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX];
        char idle[SIZE_TEXT_MAX], lingering[SIZE_TEXT_MAX], asked[SIZE_TEXT_MAX];
        char registered[SIZE_TEXT_MAX];

        append(text, "%s: %s of %s reserved, %s leased (%s idle",
               server->pools[action->pool].row.name, size_format(stats->reserved, reserved),
               size_format(stats->max, max), size_format(stats->leased, leased),
               size_format(n_idle_bytes, idle));
        if (stats->registered)
                append(text, ", %s registered: never taken",
                       size_format(stats->registered, registered));
        append(text, "), %s lingering; %s asked", size_format(stats->lingering, lingering),
               size_format(action->n_bytes, asked));
}

/* The client asked only for a block that it still maps. Such requests are frequent and followed by another
 * one: a look at all leases and clients would delay other requests. */
static enum proto_refused append_unknown(struct text *text)
{
        append(text, "the client maps no block that it may lease again");
        return PROTO_REFUSED_OTHERWISE;
}

/* The same if it asked only for a block that exists. */
static enum proto_refused append_uncached(struct text *text)
{
        append(text, "no cached block serves the request");
        return PROTO_REFUSED_OTHERWISE;
}

/* Returns whether that is the reason. */
static bool append_blocks(struct text *text, const struct server *server,
                          const struct action *action)
{
        if (!action->of_blocks)
                return false;
        append(text,
               ": too many blocks: %" PRIu64
               " exist in all pools; gpumemd has file descriptors for %" PRIu64
               " and keeps some for other tenants. To do: free memory, or raise LimitNOFILE "
               "(ulimit -n) of gpumemd",
               policy_open_blocks(server->policy), fd_limits_max_blocks());
        return true;
}

/* Returns whether that is the reason. The text comes before the holders: these are the waiting ones. */
static bool append_deadlock(struct text *text, const struct action *action,
                            const struct holders *holders)
{
        if (!action->of_deadlock)
                return false;
        append(text, ": every process that holds this memory waits for more, so none frees any; "
                     "this request came last, and fails before its deadline");
        append_holders(text, holders);
        append(text, ". To do: free memory before waiting, or gpumem_reserve all at once");
        return true;
}

/* Returns whether that is the reason. */
static bool append_outage(struct text *text, const struct server *server,
                          const struct action *action)
{
        const struct server_pool *pool = &server->pools[action->pool];
        uint64_t since_ns = pool->driver.state.since_ns, now_ns = server_now_ns(server);

        if (action->outcome == GPUMEM_E_STALLED)
                append(text,
                       ": the driver has not answered for %" PRIu64
                       " s. To do: retry later, or wait (wait_ms); cached blocks are served",
                       (now_ns - since_ns) / NS_PER_S);
        else if (action->outcome == -ENODEV && device_watch_is_barred(pool))
                append(text,
                       ": the device is in error, NVML says: %s. No blocks are created "
                       "there until it recovers",
                       nvml_health_text(pool->device.report.health));
        else if (action->outcome == -ENODEV)
                append(text, ": the device is lost, the driver says. Requests are refused "
                             "until it recovers");
        else
                return false;
        return true;
}

static enum proto_refused explain(struct server *server, const struct action *action,
                                  struct text *text)
{
        const struct session *asker = client_owner(action->client);
        struct pool_stats stats;
        struct holders holders;
        enum proto_refused reason;
        char others[DEVICE_WATCH_TEXT_MAX];
        uint64_t n_idle_bytes;
        bool is_late;

        if (policy_pool_stats(server->policy, action->pool, &stats)) {
                append(text, "unknown pool %" PRIu32 " (valid: 0-%u)", action->pool,
                       server->n_pools - 1);
                return PROTO_REFUSED_OTHERWISE;
        }
        policy_see_some_idle(server->policy, action->pool, REFUSAL_N_IDLE_LOOKS);
        n_idle_bytes = policy_idle_bytes(server->policy, action->pool);
        holders = find_holders(asker, action->pool);
        reason = reason_of(action, &stats, n_idle_bytes, holders.n_unused_bytes);
        if (reason == PROTO_REFUSED_QUOTA) {
                limit_explain(asker, action, text->bytes, text->n_bytes);
                text->length = strlen(text->bytes);
        } else {
                append_stats(text, server, action, &stats, n_idle_bytes);
        }
        is_late = reason == PROTO_REFUSED_LINGERING && stats.unresponsive;
        if (append_blocks(text, server, action) || append_outage(text, server, action))
                return PROTO_REFUSED_OTHERWISE;
        if (append_deadlock(text, action, &holders))
                return PROTO_REFUSED_POOL_FULL;
        if (is_beyond(action))
                append(text, ", which exceeds the limit itself. To do: request less, or have "
                             "the limit raised (gpumemctl limits)");
        if (is_beyond(action) || reason == PROTO_REFUSED_OTHERWISE)
                return reason;
        if (reason != PROTO_REFUSED_QUOTA)
                append(text, ": %s", name_of(reason));
        if (is_late)
                append_late(text, &holders);
        if (reason == PROTO_REFUSED_DEVICE_FULL) {
                device_watch_format_others(asker, action->pool, stats.reserved, others);
                append(text, "%s", others);
        }
        if (reason != PROTO_REFUSED_QUOTA || action->limit.scope == LIMIT_OF_TENANT)
                append_holders(text, &holders);
        append(text, ". To do: %s",
               is_late ? "continue or end the process that does not answer"
                       : advice(asker, action, reason));
        return reason;
}

static enum proto_refused append_shutdown(struct text *text, const struct server *server)
{
        append(text,
               "gpumemd is shutting down and leases nothing more; it waits up to %" PRIu64
               " s for held memory. Memory that you hold stays valid. To do: retry when the "
               "next gpumemd runs",
               drain_seconds_left(&server->shutdown.drain, server_now_ns(server)));
        return PROTO_REFUSED_OTHERWISE;
}

static enum proto_refused give_reason(struct server *server, const struct action *action,
                                      struct text *text)
{
        if (action->only_known && action->outcome == GPUMEM_E_REFUSED)
                return append_unknown(text);
        if (action->only_cached && action->outcome == GPUMEM_E_REFUSED)
                return append_uncached(text);
        if (action->outcome != GPUMEM_E_SHUTTING_DOWN)
                return explain(server, action, text);
        return append_shutdown(text, server);
}

/* The reply to the group's last LEASE gives the reason. */
static void refuse_part(struct session *session, const struct action *action)
{
        int code = action->outcome > 0 ? action->outcome : GPUMEM_E_DRIVER;

        session_tell_error(session, action->serial, code,
                           "the last LEASE of the group was refused; its reply gives the reason");
}

void refuse_lease(struct server *server, const struct action *action)
{
        struct session *session = client_owner(action->client);
        int code = action->outcome > 0 ? action->outcome : GPUMEM_E_DRIVER;
        struct frame frame = FRAME_NULL;
        char bytes[sizeof(frame.refused.text)] = "";
        struct text text = {bytes, sizeof(bytes), 0};
        bool is_told = !action->only_known && !action->only_cached &&
                       action->outcome != GPUMEM_E_CANCELLED;
        enum proto_refused reason;

        if (action->of_part) {
                refuse_part(session, action);
                return;
        }
        reason = give_reason(server, action, &text);
        if (is_told)
                event_log_note_refusal(session, action->pool, action->n_bytes, (uint32_t)code,
                                       reason, bytes);
        if (!(session->features & PROTO_FEATURE_REFUSED)) {
                session_tell_error(session, action->serial, code, bytes);
                return;
        }
        if (is_told)
                audit_log_refusal(session, bytes);
        frame.refused.code = (uint32_t)code;
        frame.refused.reason = reason;
        proto_put_text(frame.refused.text, sizeof(frame.refused.text), bytes);
        session_send(session, &frame, MESSAGE_REFUSED, action->serial, NULL, 0);
}
