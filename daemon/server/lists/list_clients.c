/* SPDX-License-Identifier: Apache-2.0 */
/* CLIENTS: a row for each connection, and for each process that left memory mapped. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"
#include "gpumem.h"

/* One half of a row: a client's numbers for one kind of memory. */
struct half {
        uint64_t leased, idle, registered, attached, charged, lingering, declared, kept;
        uint64_t requested, requested_peak, allocated, allocated_peak;
        uint64_t hits, misses, waiting;
};

#define EACH_FIGURE(FIGURE)    \
        FIGURE(leased)         \
        FIGURE(idle)           \
        FIGURE(registered)     \
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

static void add_pool(struct session *session, uint32_t pool, struct client_row *row)
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
static struct client_row describe(struct session *session, uint64_t now_ns)
{
        struct client_row row = {
                .pid = (uint32_t)session->peer.pid,
                .uid = session->peer.uid,
                .state = listed_state(session),
                .clients = 1,
                .connected = (now_ns - session->since_ns) / NS_PER_MS,
        };

        proto_put_name(row.program, sizeof(row.program), session->name);
        cgroup_container_name(client_tenant_key(session->client)->realm, row.container);
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                add_pool(session, pool, &row);
        return row;
}

/* Where a client's row is. */
struct place {
        uint64_t client;        /* its number; 0: it has no row */
        struct client_row *row; /* NULL: there was no memory for it */
};

struct clients {
        struct listing listing;
        struct client_row others;
        uint64_t now_ns;
        uint32_t n_places;
        struct place *places; /* by the sessions' numbers */
};

static struct client_row *row_of(struct clients *clients, const struct client *client)
{
        const struct session *session = client ? client_owner(client) : NULL;
        const struct place *place;

        /* A block that is kept for a client to attach belongs to no session. */
        if (!session || session->number >= clients->n_places)
                return NULL;
        place = &clients->places[session->number];
        return place->client == client_number(client) ? place->row : NULL;
}

static void add_block(const struct block_listing *block, void *argument)
{
        struct clients *clients = argument;
        const struct server *server = clients->listing.walk.asker->server;
        struct client_row *row = row_of(clients, block->charged);
        struct half half = {.leased = 0};

        listing_note_unused(&clients->listing, block);
        if (!row)
                return;
        if (block->state == BLOCK_IS_LEASED)
                half.leased = block->n_bytes;
        if (block->state == BLOCK_IS_LEASED && block->properties & POLICY_REGISTERED)
                half.registered = block->n_bytes;
        if (block->is_idle)
                half.idle = block->n_bytes;
        if (block->state == BLOCK_IS_LINGERING)
                half.lingering = block->n_bytes;
        if (block->state == BLOCK_IS_CACHED)
                half.kept = block->n_bytes;
        add_half(row, server->pools[block->pool].row.kind, &half);
}

static void add_session(struct clients *clients, struct session *session)
{
        struct listing *listing = &clients->listing;
        struct client_row row;
        struct place *place;

        /* It came after the list was begun. */
        if (session->number >= clients->n_places)
                return;
        row = describe(session, clients->now_ns);
        place = &clients->places[session->number];
        *place = (struct place){client_number(session->client), &clients->others};
        if (rows_may_show(listing->walk.asker, client_tenant(session->client)))
                place->row = row_buffer_add(&listing->rows, &row);
        else
                add_row(place->row, &row);
}

static bool add_sessions(struct walk *walk)
{
        struct session *session;

        while ((session = walk_next_session(walk))) {
                numbered_spend(&walk->place, walk->asker->server->n_pools / LISTING_POOLS_AN_ITEM);
                if (session_has_client(session))
                        add_session(CONTAINER_OF(walk, struct clients, listing.walk), session);
        }
        return walk_has_more_sessions(walk);
}

static bool add_blocks(struct walk *walk)
{
        /* Without memory for the rows there is an error instead. */
        if (listing_of(walk)->rows.failed)
                return false;
        return policy_list_blocks(walk->asker->server->policy, &walk->place, add_block, walk);
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

static bool add_others(struct walk *walk)
{
        struct clients *clients = CONTAINER_OF(walk, struct clients, listing.walk);

        clients->others.uid = LISTING_NOBODY;
        clients->others.state = LISTED_OTHERS;
        proto_put_text(clients->others.program, sizeof(clients->others.program), "(other tenants)");
        hide(&clients->others);
        if (clients->others.clients)
                (void)row_buffer_add(&clients->listing.rows, &clients->others);
        return false;
}

/* Without them the list has no rows, and its asker is told why. */
static void make_places(struct clients *clients, uint32_t n)
{
        clients->places = row_buffer_calloc(&clients->listing.rows, n, sizeof(clients->places[0]));
        clients->listing.more = clients->places;
        clients->n_places = clients->places ? n : 0;
}

void list_clients_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {
                add_sessions,  add_blocks, listing_add_boards, add_others, listing_write_rows,
                listing_reply, NULL};
        const struct server *server = session->server;
        struct clients *clients = calloc(1, sizeof(*clients));

        if (clients) {
                clients->now_ns = server_now_ns(server);
                clients->listing.reply_kind = MESSAGE_CLIENTS_REPLY;
                row_buffer_init(&clients->listing.rows, session, sizeof(struct client_row));
                make_places(clients, server->sessions_by_number.n);
        }
        listing_begin(session, frame, clients ? &clients->listing : NULL, parts);
}
