/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/lease_messages.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "client/blocks/binding.h"
#include "client/blocks/client_limit.h"
#include "client/blocks/retained.h"
#include "client/connection/reconnect.h"
#include "client/mapping/host_register.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"
#include "proto/board.h"

/* Checks that the block's size is within the request and that its lease has a word: else the daemon violates the
 * protocol. */
static int check_leased(const struct message_leased *answer, const struct lease_request *request,
                        const struct connection *connection)
{
        if (answer->n_bytes < request->n_least_bytes || answer->n_bytes > request->n_most_bytes ||
            answer->n_bytes % ARENA_GRANULE || answer->slot >= connection->n_slots)
                return -EPROTO;
        return 0;
}

/* A block with properties is never idle, and needs no word. */
static _Atomic uint64_t *word_of(const struct connection *connection, uint32_t slot,
                                 const struct lease_request *request)
{
        if (request->properties)
                return NULL;
        return board_words(connection->board, connection->n_rows) + slot;
}

static uint32_t keeps_of(const struct pool *pool)
{
        return host_register_context(&pool->memory) ? PROTO_LEASE_KEEPS : 0;
}

static bool knows_unused(const struct connection *connection)
{
        return connection->features & PROTO_FEATURE_PARTS;
}

/* Whether the daemon knows such requests. */
static int check_features(const struct connection *connection, const struct lease_request *request)
{
        if (request->flags && !(connection->features & PROTO_FEATURE_PARTS))
                return GPUMEM_E_UNSUPPORTED;
        if (!(request->properties & (PROTO_PROPERTY_REGISTERED | PROTO_PROPERTY_RDMA)) ||
            connection->features & PROTO_FEATURE_REGISTERED)
                return 0;
        last_error_set(GPUMEM_E_UNSUPPORTED,
                       "gpumemd is older than this library and has no registered memory: update "
                       "gpumemd, or allocate without GPUMEM_REGISTERED and GPUMEM_RDMA");
        return GPUMEM_E_UNSUPPORTED;
}

static int request_on(struct pool *pool, const struct connection *connection,
                      const struct lease_request *request, struct leased *leased,
                      uint64_t *ret_n_bytes, int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame message = FRAME_NULL, reply = FRAME_NULL;
        int r = check_features(connection, request);

        if (r)
                return r;
        message.lease.n_bytes = request->n_bytes;
        message.lease.n_most_units = (uint32_t)(request->n_most_bytes / ARENA_GRANULE);
        message.lease.n_least_units = (uint32_t)(request->n_least_bytes / ARENA_GRANULE);
        message.lease.properties = request->properties;
        message.lease.wait_ms = request->wait_ms;
        message.lease.flags = request->flags | keeps_of(pool);
        r = binding_find(pool, connection->serial, &message.lease.pool);
        if (r == GPUMEM_E_NO_POOL && link_is_over(connection->link))
                return GPUMEM_E_DISCONNECTED;
        if (!r)
                r = link_call(connection->link, &message, MESSAGE_LEASE, MESSAGE_LEASED, &reply,
                              &fds);
        if (r)
                last_error_set_frame(r, &reply);
        if (!r)
                r = reply.kind == MESSAGE_LEASED ? check_leased(&reply.leased, request, connection)
                                                 : -EPROTO;
        if (!r)
                r = binding_lease(pool, connection->serial, reply.leased.n_bytes);
        if (r)
                return r;
        leased->block.lease = reply.leased.lease;
        leased->block.word = word_of(connection, reply.leased.slot, request);
        leased->number = reply.leased.block;
        leased->connection = connection->serial;
        leased->is_unused = !request->properties && knows_unused(connection);
        *ret_n_bytes = reply.leased.n_bytes;
        *ret_fd = fdset_steal(&fds, 0);
        return 0;
}

static uint32_t ms_until(uint64_t deadline_ms)
{
        uint64_t at_ms = clock_now_ms();

        return at_ms < deadline_ms ? (uint32_t)(deadline_ms - at_ms) : 0;
}

int lease_messages_request(struct pool *pool, const struct lease_request *request,
                           struct leased *leased, uint64_t *ret_n_bytes, int *ret_fd)
{
        struct lease_request now = *request;
        uint64_t deadline_ms = request->wait_ms ? clock_now_ms() + request->wait_ms : 0;
        bool repeats = true;
        int r = 0;

        for (unsigned i = 0; i < 2 && repeats; i++) {
                struct connection *connection;

                if (i && request->wait_ms)
                        now.wait_ms = ms_until(deadline_ms);
                r = reconnect_acquire(pool->reconnector, &connection);
                if (r)
                        return r;
                r = request_on(pool, connection, &now, leased, ret_n_bytes, ret_fd);
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(pool->reconnector, connection, r);
        }
        return r;
}

enum return_flag { RETURN_USED, RETURN_UNUSED };
static void send_return(struct pool *pool, uint64_t connection, uint64_t lease,
                        enum return_flag flag);

static void fill(struct link_exchange *exchange, const struct leased *leased, uint32_t pool,
                 uint32_t wait_ms)
{
        struct message_lease *message = &exchange->request.lease;

        exchange->request = exchange->reply = (struct frame)FRAME_NULL;
        exchange->fds = (struct fdset)FDSET_NULL;
        message->n_bytes = leased_bytes(leased);
        message->n_most_units = (uint32_t)(leased_bytes(leased) / ARENA_GRANULE);
        message->pool = pool;
        message->wait_ms = wait_ms;
}

static int check_together(const struct connection *connection, const struct link_exchange *exchange,
                          const struct leased *leased)
{
        uint64_t n_bytes = leased_bytes(leased);
        struct lease_request request = {n_bytes, n_bytes, n_bytes, 0, 0, 0};

        return exchange->reply.kind == MESSAGE_LEASED
                       ? check_leased(&exchange->reply.leased, &request, connection)
                       : -EPROTO;
}

/* Returns those that were leased: none is of use without the others. */
static void give_back(struct pool *pool, const struct connection *connection,
                      struct link_exchange *exchanges, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                if (!exchanges[i].result && exchanges[i].reply.kind == MESSAGE_LEASED)
                        send_return(pool, connection->serial, exchanges[i].reply.leased.lease,
                                    knows_unused(connection) ? RETURN_UNUSED : RETURN_USED);
                fdset_deinit(&exchanges[i].fds);
        }
}

static uint64_t sum_of(struct leased *const *leased, unsigned n)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < n; i++)
                n_bytes += leased_bytes(leased[i]);
        return n_bytes;
}

static int ask_together(struct pool *pool, const struct connection *connection,
                        struct leased *const *leased, unsigned n, uint32_t wait_ms,
                        struct link_exchange *exchanges)
{
        uint32_t id;
        int r = binding_find(pool, connection->serial, &id);

        if (r == GPUMEM_E_NO_POOL && link_is_over(connection->link))
                return GPUMEM_E_DISCONNECTED;
        for (unsigned i = 0; i < n; i++) {
                fill(&exchanges[i], leased[i], id, wait_ms);
                exchanges[i].request.lease.flags = (i + 1 < n ? PROTO_LEASE_MORE : 0) |
                                                   keeps_of(pool);
        }
        if (r)
                return r;
        r = link_call_together(connection->link, exchanges, n, MESSAGE_LEASE, MESSAGE_LEASED);
        if (r)
                last_error_set_frame(r, &exchanges[n - 1].reply);
        for (unsigned i = 0; i < n && !r; i++)
                r = check_together(connection, &exchanges[i], leased[i]);
        if (!r)
                r = binding_lease(pool, connection->serial, sum_of(leased, n));
        if (r)
                give_back(pool, connection, exchanges, n);
        return r;
}

static int request_together_on(struct pool *pool, const struct connection *connection,
                               struct leased *const *leased, unsigned n, uint32_t wait_ms,
                               int *ret_fds)
{
        CLEANUP(freep)
        struct link_exchange *exchanges = NULL;
        int r;

        if (n > 1 && !(connection->features & PROTO_FEATURE_GROUPS)) {
                last_error_set(GPUMEM_E_UNSUPPORTED, "gpumemd is older than this library: it "
                                                     "cannot lease several blocks together");
                return GPUMEM_E_UNSUPPORTED;
        }
        exchanges = calloc(n, sizeof(*exchanges));
        if (!exchanges)
                return -ENOMEM;
        r = ask_together(pool, connection, leased, n, wait_ms, exchanges);
        if (r)
                return r;
        for (unsigned i = 0; i < n; i++) {
                const struct message_leased *answer = &exchanges[i].reply.leased;

                leased[i]->block.lease = answer->lease;
                leased[i]->block.word = board_words(connection->board, connection->n_rows) +
                                        answer->slot;
                leased[i]->number = answer->block;
                leased[i]->connection = connection->serial;
                leased[i]->is_unused = knows_unused(connection);
                ret_fds[i] = fdset_steal(&exchanges[i].fds, 0);
        }
        return 0;
}

int lease_messages_request_together(struct pool *pool, struct leased *const *leased, unsigned n,
                                    uint32_t wait_ms, int *ret_fds)
{
        uint64_t deadline_ms = wait_ms ? clock_now_ms() + wait_ms : 0;
        bool repeats = true;
        int r = 0;

        for (unsigned i = 0; i < 2 && repeats; i++) {
                struct connection *connection;

                if (i && wait_ms)
                        wait_ms = ms_until(deadline_ms);
                r = reconnect_acquire(pool->reconnector, &connection);
                if (r)
                        return r;
                r = request_together_on(pool, connection, leased, n, wait_ms, ret_fds);
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(pool->reconnector, connection, r);
        }
        return r;
}

static void send_return(struct pool *pool, uint64_t connection, uint64_t lease,
                        enum return_flag flag)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        if (flag == RETURN_UNUSED)
                frame.return_lease.flags |= PROTO_RETURN_UNUSED;
        reconnect_send(pool->reconnector, connection, &frame, MESSAGE_RETURN);
}

static void send_unmapped(struct pool *pool, uint64_t connection, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        reconnect_send(pool->reconnector, connection, &frame, MESSAGE_UNMAPPED);
}

static void send_detach(struct pool *pool, uint64_t connection, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = lease;
        frame.detach.flags = PROTO_RETURN_UNMAPPED;
        reconnect_send(pool->reconnector, connection, &frame, MESSAGE_DETACH);
}

/* Passes the mapping on to the new lease. NULL: it was unmapped meanwhile. */
static struct leased *take_retained(struct pool *pool, const struct connection *connection,
                                    const struct message_known *known, uint64_t *ret_old_lease)
{
        struct leased *leased = NULL;

        pthread_mutex_lock(&pool->lock);
        if (pool->binding.connection == connection->serial)
                leased = retained_take(pool, known->block, connection->serial);
        if (leased) {
                *ret_old_lease = leased->block.lease;
                leased->block.lease = known->lease;
                leased->block.word = board_words(connection->board, connection->n_rows) +
                                     known->slot;
                leased->is_revoked = false;
        }
        pthread_mutex_unlock(&pool->lock);
        return leased;
}

static int take_renewed(struct pool *pool, const struct connection *connection, uint64_t n_bytes,
                        const struct frame *reply, struct leased **ret_leased)
{
        const struct message_known *known = &reply->known;
        struct leased *leased;
        uint64_t old_lease;

        /* The retained block was unmapped while the daemon answered. */
        if (reply->kind == MESSAGE_LEASED) {
                send_return(pool, connection->serial, reply->leased.lease, RETURN_USED);
                return GPUMEM_E_REFUSED;
        }
        if (known->n_bytes != n_bytes || known->slot >= connection->n_slots)
                return -EPROTO;
        leased = take_retained(pool, connection, known, &old_lease);
        if (!leased) {
                send_return(pool, connection->serial, known->lease, RETURN_USED);
                return GPUMEM_E_REFUSED;
        }
        send_unmapped(pool, connection->serial, old_lease);
        *ret_leased = leased;
        return 0;
}

static int renew_on(struct pool *pool, const struct connection *connection, uint64_t n_bytes,
                    struct leased **ret_leased)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.n_most_units = (uint32_t)(n_bytes / ARENA_GRANULE);
        request.lease.flags = PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN;
        if (host_register_lasts(&pool->memory))
                request.lease.flags |= PROTO_LEASE_KEEPS;
        r = binding_find(pool, connection->serial, &request.lease.pool);
        if (!r)
                r = link_call(connection->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply,
                              &fds);
        return r ? r : take_renewed(pool, connection, n_bytes, &reply, ret_leased);
}

int lease_messages_renew(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased)
{
        struct connection *connection;
        int r = client_limit_take(pool, n_bytes);

        if (r)
                return r;
        r = reconnect_acquire(pool->reconnector, &connection);
        if (!r) {
                bool repeats;

                r = renew_on(pool, connection, n_bytes, ret_leased);
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(pool->reconnector, connection, r);
                /* The next daemon knows none of these blocks, but may have others. */
                if (repeats)
                        r = GPUMEM_E_REFUSED;
        }
        if (r)
                client_limit_give(pool, n_bytes);
        return r;
}

void lease_messages_end(struct pool *pool, const struct leased *leased)
{
        uint64_t lease = leased->block.lease;

        if (!binding_unmapped(pool, leased->connection, leased_counted_bytes(leased)))
                return;
        if (leased->is_attached)
                send_detach(pool, leased->connection, lease);
        else if (leased->is_revoked)
                send_unmapped(pool, leased->connection, lease);
        else
                send_return(pool, leased->connection, lease,
                            leased->is_unused ? RETURN_UNUSED : RETURN_USED);
}
