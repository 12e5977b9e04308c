/* CLIENTS: a row for each connection, and for each process that may still map what it had. */
#include "base/err.h"
#include "daemon/server/listing.h"
#include "gpumem.h"
#include "proto/board.h"

#define NS_PER_MS UINT64_C(1000000)

/* One half of a row: what a client has of one kind of memory. */
struct half {
        uint64_t leased, charged, lingering, declared;
        uint64_t requested, requested_peak, allocated, allocated_peak;
        uint64_t hits, misses, waiting;
};

#define EACH_FIGURE(FIGURE)    \
        FIGURE(leased)         \
        FIGURE(charged)        \
        FIGURE(lingering)      \
        FIGURE(declared)       \
        FIGURE(requested)      \
        FIGURE(requested_peak) \
        FIGURE(allocated) FIGURE(allocated_peak) FIGURE(hits) FIGURE(misses) FIGURE(waiting)

/* Adds a half to the fields of its kind. */
static void add_half(struct client_row *row, uint32_t kind, const struct half *half)
{
#define ADD_DEVICE(figure) row->device_##figure += half->figure;
#define ADD_PINNED(figure) row->pinned_##figure += half->figure;
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
#define ADD_DEVICE(figure) sum->device_##figure += row->device_##figure;
#define ADD_PINNED(figure) sum->pinned_##figure += row->pinned_##figure;
        EACH_FIGURE(ADD_DEVICE)
        EACH_FIGURE(ADD_PINNED)
#undef ADD_DEVICE
#undef ADD_PINNED
        sum->clients += row->clients;
}

static uint64_t at_most(uint64_t claimed, uint64_t limit)
{
        return claimed < limit ? claimed : limit;
}

/* A board is its client's to write: each number is read once, and is not more than can be. */
static void read_claims(const struct session *session, uint32_t pool, struct half *half)
{
        const struct board_pool *board = board_pool(session->board, pool);
        struct board_sums sums = board_sum(board);
        uint64_t max = session->server->pools[pool].row.n_max_bytes;

        half->allocated = at_most(sums.allocated, half->charged);
        half->requested = at_most(sums.requested, half->allocated);
        half->allocated_peak = at_most(atomic_load(&board->allocated_peak), max);
        half->requested_peak = at_most(atomic_load(&board->requested_peak), max);
        half->hits = sums.hits;
        half->misses = sums.misses;
}

static void add_pool(const struct session *session, uint32_t pool, struct client_row *row)
{
        struct half half = {
                .charged = client_charged(session->client, pool),
                .declared = client_declared(session->client, pool),
                .waiting = client_waiting(session->client, pool),
        };

        if (session->state == SESSION_READY)
                read_claims(session, pool, &half);
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

/* What the policy knows of its blocks comes from the walk through these. */
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
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                add_pool(session, pool, &row);
        return row;
}

/* The rows of all clients, in the order of their sessions' row numbers. */
struct table {
        struct server *server;
        struct row_buffer buffer;
};

static void add_block(const struct block_listing *block, void *argument)
{
        struct table *table = argument;
        struct half half = {.leased = 0};
        struct session *session;

        if (!block->charged)
                return;
        session = client_owner(block->charged);
        if (block->state == BLOCK_IS_LEASED)
                half.leased = block->n_bytes;
        else
                half.lingering = block->n_bytes;
        add_half((struct client_row *)(void *)table->buffer.rows + session->row,
                 table->server->pools[block->pool].row.kind, &half);
}

static void list_everybody(struct table *table)
{
        uint64_t now_ns = server_now_ns(table->server);
        struct session *session;

        LIST_FOREACH (session, &table->server->sessions, link) {
                struct client_row row;

                if (!listed_state(session))
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

/* Copies the rows that the asker may see, and adds the others up. */
static void choose(const struct session *asker, const struct table *table,
                   struct row_buffer *chosen)
{
        const struct client_row *rows = (const struct client_row *)(const void *)table->buffer.rows;
        struct client_row others = {.uid = LISTING_NOBODY, .state = LISTED_OTHERS};
        const struct session *session;

        proto_put_text(others.program, sizeof(others.program), "(other tenants)");
        LIST_FOREACH (session, &table->server->sessions, link) {
                if (!listed_state(session))
                        continue;
                if (listing_shows(asker, client_tenant(session->client)))
                        row_buffer_add(chosen, &rows[session->row]);
                else
                        add_row(&others, &rows[session->row]);
        }
        if (others.clients)
                row_buffer_add(chosen, &others);
}

void listing_take_clients(struct session *session, const struct frame *frame)
{
        struct table table = {.server = session->server,
                              .buffer = {.n_row_bytes = sizeof(struct client_row)}};
        CLEANUP(row_buffer_deinit)
        struct row_buffer chosen = {.n_row_bytes = sizeof(struct client_row)};

        list_everybody(&table);
        if (table.buffer.failed)
                chosen.failed = true;
        else
                choose(session, &table, &chosen);
        row_buffer_deinit(&table.buffer);
        listing_reply(session, frame, MESSAGE_CLIENTS_REPLY, &chosen);
}
