/* SPDX-License-Identifier: Apache-2.0 */
/* CLIENTS: a row for each connection, and for each process that left memory mapped. */
#include <assert.h>

#include "base/err.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"
#include "gpumem.h"

/* One half of a row: a client's numbers for one kind of memory. */
struct half {
        uint64_t leased, idle, attached, charged, lingering, declared, kept;
        uint64_t requested, requested_peak, allocated, allocated_peak;
        uint64_t hits, misses, waiting;
};

#define EACH_FIGURE(FIGURE)    \
        FIGURE(leased)         \
        FIGURE(idle)           \
        FIGURE(attached)       \
        FIGURE(charged)        \
        FIGURE(lingering)      \
        FIGURE(declared)       \
        FIGURE(kept)           \
        FIGURE(requested)      \
        FIGURE(requested_peak) \
        FIGURE(allocated) FIGURE(allocated_peak) FIGURE(hits) FIGURE(misses) FIGURE(waiting)

/* Adds a half to the fields of its kind. */
static void add_half(struct client_row *row, uint32_t kind, const struct half *half)
{
#define ADD_DEVICE(figure) board_stats_add(&row->device_##figure, half->figure);
#define ADD_PINNED(figure) board_stats_add(&row->pinned_##figure, half->figure);
        if (kind == GPUMEM_DEVICE) {
                EACH_FIGURE(ADD_DEVICE)
        } else {
                EACH_FIGURE(ADD_PINNED)
        }
#undef ADD_DEVICE
#undef ADD_PINNED
}

static void add_row(struct client_row *sum, const struct client_row *row)
{
#define ADD_DEVICE(figure) board_stats_add(&sum->device_##figure, row->device_##figure);
#define ADD_PINNED(figure) board_stats_add(&sum->pinned_##figure, row->pinned_##figure);
        EACH_FIGURE(ADD_DEVICE)
        EACH_FIGURE(ADD_PINNED)
#undef ADD_DEVICE
#undef ADD_PINNED
        sum->clients += row->clients;
}

static void add_pool(const struct session *session, uint32_t pool, struct client_row *row)
{
        struct board_stats stats = board_stats_read(session, pool);
        struct half half = {
                .attached = client_attached(session->client, pool),
                .charged = client_charged(session->client, pool),
                .declared = client_declared(session->client, pool),
                .requested = stats.requested,
                .requested_peak = stats.requested_peak,
                .allocated = stats.allocated,
                .allocated_peak = stats.allocated_peak,
                .hits = stats.hits,
                .misses = stats.misses,
                .waiting = client_waiting(session->client, pool),
        };

        add_half(row, session->server->pools[pool].row.kind, &half);
}

static uint32_t listed_state(const struct session *session)
{
        switch (session->state) {
        case SESSION_READY:
                return LISTED_READY;
        case SESSION_LEFT:
                return LISTED_LEFT;
        case SESSION_ORPHANED:
                return LISTED_ORPHANED;
        case SESSION_HELLO:
        case SESSION_CLOSING:
        case SESSION_N_STATES:
                break;
        }
        return 0;
}

/* Fills in all but what the policy knows of the client's blocks, which a walk through the blocks adds. */
static struct client_row describe(const struct session *session, uint64_t now_ns)
{
        struct client_row row = {
                .pid = (uint32_t)session->peer.pid,
                .uid = session->peer.uid,
                .state = listed_state(session),
                .clients = 1,
                .connected = (now_ns - session->since_ns) / NS_PER_MS,
        };

        proto_put_text(row.program, sizeof(row.program), session->program);
        cgroup_container_name(client_tenant_key(session->client)->realm, row.container);
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                add_pool(session, pool, &row);
        return row;
}

/* The rows of all clients, indexed by session->row. */
struct table {
        struct server *server;
        struct row_buffer buffer;
};

static void add_block(const struct block_listing *block, void *argument)
{
        struct table *table = argument;
        struct client_row *rows = (struct client_row *)(void *)table->buffer.rows;
        struct half half = {.leased = 0};
        struct session *session;

        session = block->charged ? client_owner(block->charged) : NULL;
        /* A block that is kept for a client to attach belongs to no session. */
        if (!session)
                return;
        assert(rows);
        if (block->state == BLOCK_IS_LEASED)
                half.leased = block->n_bytes;
        if (block->is_idle)
                half.idle = block->n_bytes;
        if (block->state == BLOCK_IS_LINGERING)
                half.lingering = block->n_bytes;
        if (block->state == BLOCK_IS_CACHED)
                half.kept = block->n_bytes;
        add_half(rows + session->row, table->server->pools[block->pool].row.kind, &half);
}

static void list_everybody(struct table *table)
{
        uint64_t now_ns = server_now_ns(table->server);
        struct session *session;

        LIST_FOREACH (session, &table->server->sessions, link) {
                struct client_row row;

                if (!session_has_client(session))
                        continue;
                row = describe(session, now_ns);
                session->row = table->buffer.n_rows;
                row_buffer_add(&table->buffer, &row);
        }
        if (table->buffer.failed)
                return;
        for (uint32_t pool = 0; pool < table->server->n_pools; pool++)
                policy_list_blocks(table->server->policy, pool, add_block, table);
}

/* Peaks of several clients were reached at different times: their sum has no meaning. */
static void hide(struct client_row *others)
{
        others->connected = LISTING_UNTOLD;
        others->device_requested_peak = LISTING_UNTOLD;
        others->device_allocated_peak = LISTING_UNTOLD;
        others->pinned_requested_peak = LISTING_UNTOLD;
        others->pinned_allocated_peak = LISTING_UNTOLD;
}

/* Copies the rows that the asker may see, and adds up the others. */
static void choose(const struct session *asker, const struct table *table,
                   struct row_buffer *chosen)
{
        const struct client_row *rows = (const struct client_row *)(const void *)table->buffer.rows;
        struct client_row others = {.uid = LISTING_NOBODY, .state = LISTED_OTHERS};
        const struct session *session;

        proto_put_text(others.program, sizeof(others.program), "(other tenants)");
        LIST_FOREACH (session, &table->server->sessions, link) {
                if (!session_has_client(session))
                        continue;
                if (rows_may_show(asker, client_tenant(session->client)))
                        row_buffer_add(chosen, &rows[session->row]);
                else if (rows)
                        add_row(&others, &rows[session->row]);
        }
        hide(&others);
        if (others.clients)
                row_buffer_add(chosen, &others);
}

static void answer(struct session *session, const struct frame *frame)
{
        struct table table = {.server = session->server,
                              .buffer = {.n_row_bytes = sizeof(struct client_row)}};
        CLEANUP(row_buffer_deinit)
        struct row_buffer chosen = {.n_row_bytes = sizeof(struct client_row)};

        (void)policy_see_idle(session->server->policy);
        list_everybody(&table);
        if (table.buffer.failed)
                chosen.failed = true;
        else
                choose(session, &table, &chosen);
        row_buffer_deinit(&table.buffer);
        rows_reply(session, frame, MESSAGE_CLIENTS_REPLY, &chosen);
}

void list_clients_take(struct session *session, const struct frame *frame)
{
        list_stats_begin(session, frame, answer);
}
