/* SPDX-License-Identifier: Apache-2.0 */
/* Each handler tells the policy of the request, or answers at once. */
#include "daemon/server/pools/pools.h"
#include "daemon/server/requests/dispatch.h"
#include "daemon/server/session/process_sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/size.h"
#include "daemon/server/lists/list_limits.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/gpu_file_access.h"
#include "daemon/server/requests/reclaim.h"
#include "daemon/server/requests/set_limits.h"
#include "daemon/server/requests/share_requests.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/request_walk.h"
#include "gpumem.h"

#define BLOCK_UNIT (2 * MIB)

static void refuse(struct session *session, const struct frame *frame, int code, const char *text)
{
        session_send_error(session, frame->serial, code, text ? text : proto_error_text(code));
}

static int give_board(struct session *session)
{
        return board_file_init(session->server, session->features & PROTO_FEATURE_BOARD,
                               &session->board);
}

static void welcome(struct session *session, uint32_t serial)
{
        struct server *server = session->server;
        struct frame frame = FRAME_NULL;
        int fds[] = {session->board.file.fd, server->pools_fd};

        frame.welcome = (struct message_welcome){
                .version = PROTO_VERSION,
                .n_slots = server->n_slots,
                .features = session->features,
                .incarnation = server->incarnation,
                .n_board_bytes = session->board.file.n_bytes,
                .n_pools = server->n_pools,
                .n_row_bytes = sizeof(struct pool_row),
        };
        session->board.is_sent = true;
        session_send(session, &frame, MESSAGE_WELCOME, serial, fds, 2);
}

static void refuse_user(struct session *session, const struct frame *frame)
{
        char text[64];

        (void)snprintf(text, sizeof(text), "this gpumemd leases memory to uid %u only",
                       (unsigned)session->server->served_uid);
        refuse(session, frame, GPUMEM_E_DENIED, text);
}

/* A HELLO is several steps: the board, one for each frame that an earlier connection of the process still has, and the
 * rest. */
struct hello {
        struct walk walk;
        bool has_failed;
};

static struct hello *hello_of(struct walk *walk)
{
        return CONTAINER_OF(walk, struct hello, walk);
}

static void hello_free(struct walk *walk)
{
        struct hello *hello = hello_of(walk);

        if (hello->has_failed)
                session_end_connection(walk->asker);
        free(hello);
}

/* Was it a client of this daemon before? */
static bool reconnects(const struct walk *walk)
{
        return walk->request.hello.incarnation == walk->asker->server->incarnation;
}

static bool catch_up(struct walk *walk)
{
        struct session *other;

        if (!reconnects(walk))
                return false;
        while ((other = walk_next_session(walk))) {
                if (process_sessions_catch_up(walk->asker, other)) {
                        numbered_meet_again(&walk->place);
                        return true;
                }
        }
        return walk_has_more_sessions(walk);
}

static bool become_client(struct walk *walk)
{
        struct session *session = walk->asker;
        const struct frame *frame = &walk->request;
        struct client *client;
        struct tenant_key key, owner_key;
        int r;

        /* Its board, if it had to be made, was work enough for one step. */
        if (!walk->has_rested)
                return true;
        authorization_find_tenant(session, &key);
        authorization_find_owner(session, &owner_key);
        r = session_watch_process(session);
        if (!r)
                r = policy_add_client(session->server->policy, &key, &owner_key,
                                      session->server->n_slots, NULL, session, &client);
        if (r) {
                /* A child has its connection, and may not speak for it. */
                if (r == -ESRCH)
                        refuse(session, frame, GPUMEM_E_DENIED, peer_fault(r));
                else
                        session_refuse_for_memory(session, frame->serial);
                hello_of(walk)->has_failed = true;
                return false;
        }
        client_set_line(client, session->account->payer.owner);
        if (frame->hello.incarnation)
                client_set_held(client, frame->hello.n_held_bytes);
        if (session->features & PROTO_FEATURE_PRESSURE)
                client_hear_pressure(client);
        session_become_ready(session, client);
        if (reconnects(walk))
                process_sessions_reconnect(session, frame->hello.n_held_bytes);
        welcome(session, frame->serial);
        return false;
}

/* A client that speaks a later version also speaks this one. */
static void take_hello(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {catch_up, become_client, NULL};
        struct hello *hello;

        if (!session_may_lease(session) && !authorization_sees_all(session)) {
                refuse_user(session, frame);
                session_end_connection(session);
                return;
        }
        session->features = frame->hello.features & PROTO_FEATURES;
        hello = calloc(1, sizeof(*hello));
        if (!hello || give_board(session)) {
                free(hello);
                session_refuse_for_memory(session, frame->serial);
                session_end_connection(session);
                return;
        }
        memcpy(session->program, frame->hello.program, sizeof(session->program));
        memcpy(session->name, frame->hello.program, sizeof(session->name));
        walk_begin(session, frame, &hello->walk, parts, hello_free);
}

/* Why a LEASE cannot be served from a pool of CUDA IPC handles; NULL: it can. */
static const char *not_for_legacy(const struct session *session, uint32_t properties)
{
        if (!(session->features & PROTO_FEATURE_LEGACY))
                return "this pool's blocks are CUDA IPC handles, which this client does not know";
        if (properties & PROTO_PROPERTY_SHAREABLE)
                return "memory of a pool whose \"ipc\" is \"legacy\" cannot be shared";
        return properties ? "a pool whose \"ipc\" is \"legacy\" has no registered memory: take it "
                            "from the driver, with cuMemAlloc"
                          : NULL;
}

/* Why no block of the pool can be reached by network adapters. */
static const char *not_for_rdma(const struct server_pool *pool)
{
        return pool->row.kind == GPUMEM_PINNED
                       ? "GPUMEM_RDMA is for device memory; network adapters can reach any pinned "
                         "memory: ask for GPUMEM_REGISTERED"
                       : "this device has no GPUDirect RDMA for virtual memory: ask for "
                         "GPUMEM_REGISTERED, and copy through pinned memory";
}

/* Why the pool cannot make such a block; NULL: it can, or there is no such pool. */
static const char *not_of_pool(const struct session *session, const struct frame *frame)
{
        const struct server *server = session->server;
        const struct server_pool *pool;
        uint32_t properties = frame->lease.properties;

        if (properties & PROTO_PROPERTY_FABRIC)
                return "fabric handles are not served, since they need an IMEX channel: share by "
                       "GPUMEM_SHAREABLE, within the node";
        if (frame->lease.pool >= server->n_pools)
                return NULL;
        pool = &server->pools[frame->lease.pool];
        if (pool->row.properties & PROTO_POOL_LEGACY)
                return not_for_legacy(session, properties);
        return properties & PROTO_PROPERTY_RDMA && !pool->has_rdma ? not_for_rdma(pool) : NULL;
}

/* Which feature the LEASE requires and the client did not name, in words; NULL: none. */
static const char *lacks_feature(const struct session *session, const struct message_lease *lease)
{
        if (lease->flags & PROTO_LEASE_MORE && !(session->features & PROTO_FEATURE_GROUPS))
                return "a LEASE with the flag MORE requires feature bit 3 in HELLO";
        if (lease->flags & PROTO_LEASE_ONLY_CACHED && !(session->features & PROTO_FEATURE_PARTS))
                return "a LEASE with the flag ONLY_CACHED requires feature bit 4 in HELLO";
        if (lease->properties & (PROTO_PROPERTY_RDMA | PROTO_PROPERTY_REGISTERED) &&
            !(session->features & PROTO_FEATURE_REGISTERED))
                return "a LEASE of a RDMA or REGISTERED block requires feature bit 7 in HELLO";
        return NULL;
}

/* Whether this client may lease such a block. If not, the refusal has been sent. */
static bool admits(struct session *session, const struct frame *frame)
{
        struct server *server = session->server;
        const char *lacking = lacks_feature(session, &frame->lease);
        const char *why = not_of_pool(session, frame);

        if (!session_may_lease(session)) {
                refuse_user(session, frame);
        } else if (lacking) {
                refuse(session, frame, GPUMEM_E_BAD_REQUEST, lacking);
        } else if (why) {
                refuse(session, frame, GPUMEM_E_UNSUPPORTED, why);
        } else if (gpu_file_access_refuse(session, frame->serial, frame->lease.pool)) {
                return false;
        } else if (!device_watch_admits(server, frame->lease.pool,
                                        client_tenant_key(session->client))) {
                refuse(session, frame, GPUMEM_E_DENIED,
                       "this device serves only one tenant, another one: the driver does not clear "
                       "the device's memory");
        } else {
                return true;
        }
        return false;
}

static void take_lease(struct session *session, const struct frame *frame)
{
        struct server *server = session->server;
        uint64_t now_ns = server_now_ns(server);
        struct policy_ask ask = {
                .pool = frame->lease.pool,
                .serial = frame->serial,
                .n_bytes = frame->lease.n_bytes,
                .n_most_bytes = frame->lease.n_most_units * BLOCK_UNIT,
                .n_least_bytes = frame->lease.n_least_units * BLOCK_UNIT,
                .known_will_do = frame->lease.flags & PROTO_LEASE_KNOWN,
                .only_known = (frame->lease.flags & PROTO_LEASE_KNOWN) &&
                              (frame->lease.flags & PROTO_LEASE_ONLY_KNOWN),
                .only_cached = frame->lease.flags & PROTO_LEASE_ONLY_CACHED,
                .keeps_mapped = frame->lease.flags & PROTO_LEASE_KEEPS,
                .properties = frame->lease.properties,
                .more = frame->lease.flags & PROTO_LEASE_MORE,
                .deadline_ns = now_ns + proto_wait_ms(frame->lease.wait_ms) * NS_PER_MS,
        };

        if (admits(session, frame))
                policy_lease(server->policy, session->client, &ask, now_ns);
        else
                policy_lease_denied(session->client, &ask);
}

static enum return_kind return_kind_of(uint32_t flags)
{
        if (!(flags & PROTO_RETURN_UNMAPPED))
                return RETURN_MAPPED;
        return flags & PROTO_RETURN_UNUSED ? RETURN_UNUSED : RETURN_UNMAPPED;
}

static void take_return(struct session *session, const struct frame *frame)
{
        enum return_kind kind = return_kind_of(frame->return_lease.flags);
        int r;

        pools_check_integrity(session->server, session->client, frame->return_lease.lease);
        r = policy_return(session->server->policy, session->client, frame->return_lease.lease, kind,
                          server_now_ns(session->server));
        if (r)
                refuse(session, frame, r, NULL);
}

static void take_unmapped(struct session *session, const struct frame *frame)
{
        int r;

        pools_check_integrity(session->server, session->client, frame->unmapped.lease);
        r = policy_unmapped(session->server->policy, session->client, frame->unmapped.lease,
                            server_now_ns(session->server));
        if (r)
                refuse(session, frame, r, NULL);
}

static void take_pools(struct session *session, const struct frame *frame)
{
        struct frame reply = FRAME_NULL;

        reply.pools_reply.n_rows = session->server->n_pools;
        reply.pools_reply.n_row_bytes = sizeof(struct pool_row);
        session_send(session, &reply, MESSAGE_POOLS_REPLY, frame->serial,
                     &session->server->pools_fd, 1);
}

static void take_loop(struct session *session, const struct frame *frame)
{
        const struct scheduler_stats *stats = &session->server->scheduler.stats;
        struct frame reply = FRAME_NULL;

        reply.loop_is = (struct message_loop_is){
                .steps = stats->n_steps,
                .late_steps = stats->n_late,
                .late_after = SCHEDULER_LATE_NS,
                .longest_step = stats->longest_ns,
                .busy = scheduler_cpu_ns(&session->server->scheduler),
                .age = clock_now_ns() - stats->since_ns,
        };
        session_send(session, &reply, MESSAGE_LOOP_IS, frame->serial, NULL, 0);
}

static void take_configuration(struct session *session, const struct frame *frame)
{
        const char *path = session->server->configuration_path;
        struct frame reply = FRAME_NULL;

        if (!authorization_may_administer(session)) {
                refuse(session, frame, GPUMEM_E_DENIED,
                       "only root, and clients on the admin socket, are told of the configuration");
                return;
        }
        if (path && strlen(path) < sizeof(reply.configuration_is.path))
                proto_put_text(reply.configuration_is.path, sizeof(reply.configuration_is.path),
                               path);
        session_send(session, &reply, MESSAGE_CONFIGURATION_IS, frame->serial, NULL, 0);
}

static void log_freed_all(const struct session *session)
{
        static const char text[] = "every tenant's cached blocks are freed";

        audit_log_act(session, text);
        event_log_note(session, LISTED_EVENT_FREED_ALL, PROTO_ALL_POOLS, 0, text);
}

static int release_begin(struct session *session, const struct frame *frame,
                         enum policy_scope scope)
{
        CLEANUP(freep)
        struct walk *walk = calloc(1, sizeof(*walk));
        int r;

        if (!walk)
                return -ENOMEM;
        r = policy_release_all(session->server->policy, session->client, frame->serial, scope,
                               frame->free_all_blocks.pool);
        if (!r)
                reclaim_release(session, frame, steal_ptr(walk));
        return r;
}

static void take_free_all(struct session *session, const struct frame *frame)
{
        enum policy_scope scope = (enum policy_scope)frame->free_all_blocks.scope;
        int r;

        if (scope == SCOPE_NODE && !authorization_may_administer(session)) {
                refuse(session, frame, GPUMEM_E_DENIED,
                       "only root, and clients on the admin socket, may free every tenant's "
                       "blocks");
                return;
        }
        r = release_begin(session, frame, scope);
        if (r == GPUMEM_E_NO_POOL)
                session_refuse_pool(session, frame->serial, frame->free_all_blocks.pool);
        else if (r)
                refuse(session, frame, r > 0 ? r : GPUMEM_E_TOO_MANY, NULL);
        else if (scope == SCOPE_NODE)
                log_freed_all(session);
}

static void take_reset_peaks(struct session *session, const struct frame *frame)
{
        enum policy_scope scope = (enum policy_scope)frame->reset_peaks.scope;
        struct frame reply = FRAME_NULL;
        int r;

        if (scope == SCOPE_NODE && !authorization_may_administer(session)) {
                refuse(session, frame, GPUMEM_E_DENIED,
                       "only root, and clients on the admin socket, may reset every tenant's "
                       "peaks");
                return;
        }
        r = policy_reset_peaks(session->server->policy, session->client, scope,
                               frame->reset_peaks.pool);
        if (!r && scope == SCOPE_NODE)
                audit_log_act(session, "every tenant's peaks are reset");
        if (r == GPUMEM_E_NO_POOL)
                session_refuse_pool(session, frame->serial, frame->reset_peaks.pool);
        else if (r)
                refuse(session, frame, r, NULL);
        else
                session_send(session, &reply, MESSAGE_PEAKS_RESET, frame->serial, NULL, 0);
}

static void take_held(struct session *session, const struct frame *frame)
{
        int r = policy_declare(session->server->policy, session->client, frame->held.pool,
                               frame->held.n_bytes, server_now_ns(session->server));

        if (r)
                refuse(session, frame, r, NULL);
        else
                process_sessions_take_over(session);
}

static void take_bye(struct session *session, const struct frame *frame)
{
        (void)frame;
        session_end_connection(session);
}

static void take_cancel(struct session *session, const struct frame *frame)
{
        (void)policy_cancel(session->server->policy, session->client, frame->cancel.request,
                            server_now_ns(session->server));
}

static void refuse_hello(struct session *session, const struct frame *frame)
{
        refuse(session, frame, GPUMEM_E_BAD_FRAME, "a second HELLO");
        session_end_connection(session);
}

/* The client has a reason of its own, so its words are kept as they are. */
static void take_failed(struct session *session, const struct frame *frame)
{
        if (session->features & PROTO_FEATURE_REPORTS)
                event_log_note_failure(session, &frame->failed);
        else
                refuse(session, frame, GPUMEM_E_BAD_REQUEST,
                       "FAILED requires feature bit 6 in HELLO");
}

static void take_named(struct session *session, const struct frame *frame)
{
        if (!(session->features & PROTO_FEATURE_NAMES)) {
                refuse(session, frame, GPUMEM_E_BAD_REQUEST,
                       "NAMED requires feature bit 9 in HELLO");
                return;
        }
        memcpy(session->name, frame->named.program, sizeof(session->name));
        /* That row has the name from before. */
        session->grants_row = NULL;
}

/* Handlers by message kind, for every message that a client may send. */
static void (*const handlers[])(struct session *session, const struct frame *frame) = {
        [MESSAGE_HELLO] = refuse_hello,
        [MESSAGE_BYE] = take_bye,
        [MESSAGE_HELD] = take_held,
        [MESSAGE_LEASE] = take_lease,
        [MESSAGE_RETURN] = take_return,
        [MESSAGE_UNMAPPED] = take_unmapped,
        [MESSAGE_CANCEL] = take_cancel,
        [MESSAGE_FAILED] = take_failed,
        [MESSAGE_NAMED] = take_named,
        [MESSAGE_STATS] = list_stats_take,
        [MESSAGE_POOLS] = take_pools,
        [MESSAGE_CLIENTS] = list_clients_take,
        [MESSAGE_BLOCKS] = list_blocks_take,
        [MESSAGE_TENANTS] = list_tenants_take,
        [MESSAGE_EVENTS] = list_events_take,
        [MESSAGE_FREE_ALL_BLOCKS] = take_free_all,
        [MESSAGE_RESET_PEAKS] = take_reset_peaks,
        [MESSAGE_RECLAIM] = reclaim_take,
        [MESSAGE_SHARE] = share_requests_share,
        [MESSAGE_SHARE_KEPT] = share_requests_share_kept,
        [MESSAGE_ATTACH] = share_requests_attach,
        [MESSAGE_DETACH] = share_requests_detach,
        [MESSAGE_UNSHARE] = share_requests_unshare,
        [MESSAGE_LIMITS] = list_limits_take,
        [MESSAGE_SET_LIMITS] = set_limits_take,
        [MESSAGE_CONFIGURATION] = take_configuration,
        [MESSAGE_LOOP] = take_loop,
};

static bool asks_for_memory(const struct frame *frame)
{
        return frame->kind == MESSAGE_LEASE || frame->kind == MESSAGE_ATTACH ||
               frame->kind == MESSAGE_HELD || frame->kind == MESSAGE_FAILED;
}

/* Memory that no client waits for any more is not given out. */
static bool is_in_vain(const struct session *session, const struct frame *frame)
{
        return session->transport.has_hung_up &&
               (frame->kind == MESSAGE_LEASE || frame->kind == MESSAGE_ATTACH);
}

void dispatch_frame(struct session *session, int r, const struct frame *frame)
{
        struct server *server = session->server;

        log_debug("client %d (%s): %s %u", (int)session->peer.pid, session->program,
                  proto_name(frame->kind), frame->serial);
        if (session->state == SESSION_HELLO) {
                if (r == 0 && frame->kind == MESSAGE_HELLO) {
                        take_hello(session, frame);
                } else {
                        refuse(session, frame, GPUMEM_E_BAD_FRAME, "the first frame must be HELLO");
                        session_end_connection(session);
                }
        } else if (r) {
                refuse(session, frame, GPUMEM_E_UNKNOWN_KIND, NULL);
        } else if (!is_in_vain(session, frame)) {
                /* proto_decode rejects messages that only the daemon sends. */
                assert(frame->kind < ARRAY_SIZE(handlers) && handlers[frame->kind]);
                if (asks_for_memory(frame))
                        session_note_user(session);
                handlers[frame->kind](session, frame);
        }
        server_execute(server);
}
