#include "client/blocks/wanted.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "client/blocks/binding.h"
#include "client/runtime/last_error.h"
#include "client/mapping/host_register.h"
#include "client/connection/reconnect.h"
#include "gpumem.h"

/* A block is as large as it may be, and its lease has a word, or the daemon is not what it should be. */
static int check_answer(const struct message_leased *answer, const struct wanted *wanted,
                        const struct connection *connection)
{
        if (answer->n_bytes < wanted->n_least_bytes || answer->n_bytes > wanted->n_most_bytes ||
            answer->n_bytes % ARENA_GRANULE || answer->slot >= connection->n_slots)
                return -EPROTO;
        return 0;
}

/* What may be shared is never idle. */
static _Atomic uint64_t *word_of(const struct connection *connection, uint32_t slot,
                                 const struct wanted *wanted)
{
        if (wanted->properties & PROTO_PROPERTY_SHAREABLE)
                return NULL;
        return board_words(connection->board, connection->n_rows) + slot;
}

static int ask_on(struct pool *pool, const struct connection *connection,
                  const struct wanted *wanted, struct leased *leased, uint64_t *ret_n_bytes,
                  int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply = FRAME_NULL;
        int r;

        request.lease.n_bytes = wanted->n_bytes;
        request.lease.n_most_units = (uint32_t)(wanted->n_most_bytes / ARENA_GRANULE);
        request.lease.n_least_units = (uint32_t)(wanted->n_least_bytes / ARENA_GRANULE);
        request.lease.properties = wanted->properties;
        request.lease.wait_ms = wanted->wait_ms;
        if (host_register_context(&pool->memory))
                request.lease.flags = PROTO_LEASE_KEEPS;
        r = binding_find(pool, connection->serial, &request.lease.pool);
        if (r == GPUMEM_E_NO_POOL && link_is_over(connection->link))
                return GPUMEM_E_DISCONNECTED;
        if (!r)
                r = link_call(connection->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply,
                              &fds);
        if (r)
                last_error_set_frame(r, &reply);
        if (!r)
                r = reply.kind == MESSAGE_LEASED ? check_answer(&reply.leased, wanted, connection)
                                                 : -EPROTO;
        if (!r)
                r = binding_lease(pool, connection->serial, reply.leased.n_bytes);
        if (r)
                return r;
        leased->block.lease = reply.leased.lease;
        leased->block.word = word_of(connection, reply.leased.slot, wanted);
        leased->number = reply.leased.block;
        leased->connection = connection->serial;
        *ret_n_bytes = reply.leased.n_bytes;
        *ret_fd = fdset_steal(&fds, 0);
        return 0;
}

static uint32_t ms_until(uint64_t deadline_ms)
{
        uint64_t at_ms = clock_now_ms();

        return at_ms < deadline_ms ? (uint32_t)(deadline_ms - at_ms) : 0;
}

int wanted_ask(struct pool *pool, const struct wanted *wanted, struct leased *leased,
               uint64_t *ret_n_bytes, int *ret_fd)
{
        struct wanted now = *wanted;
        uint64_t deadline_ms = wanted->wait_ms ? clock_now_ms() + wanted->wait_ms : 0;
        bool repeats = true;
        int r = 0;

        for (unsigned i = 0; i < 2 && repeats; i++) {
                struct connection *connection;

                if (i && wanted->wait_ms)
                        now.wait_ms = ms_until(deadline_ms);
                r = reconnect_acquire(pool->reconnector, &connection);
                if (r)
                        return r;
                r = ask_on(pool, connection, &now, leased, ret_n_bytes, ret_fd);
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(pool->reconnector, connection, r);
        }
        return r;
}
