/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_stats.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/reply_files.h"

static int look_begin(const struct server *server, struct stats_look *ret_look)
{
        struct board_total *totals = calloc(server->n_pools, sizeof(totals[0]));

        if (!totals)
                return -ENOMEM;
        *ret_look = (struct stats_look){.totals = totals,
                                        .n_changes = policy_n_changes(server->policy),
                                        .began_ns = server_now_ns(server)};
        return 0;
}

static void look_forget(struct stats_look *look)
{
        free(look->totals);
        look->totals = NULL;
}

static void note_unused(uint32_t pool, uint64_t n_bytes, void *argument)
{
        struct board_total *total = &((const struct stats_look *)argument)->totals[pool];

        if (n_bytes > total->largest_free)
                total->largest_free = n_bytes;
}

/* So many blocks that are only looked at take as long as an item of other walks. */
#define LOOKS_AN_ITEM 4

/* Parts of a look: each returns whether more is left of it. */
static bool look_at_blocks(const struct server *server, struct stats_look *look,
                           struct numbered_walk *place)
{
        bool has_more;

        place->n_items *= LOOKS_AN_ITEM;
        has_more = policy_list_unused(server->policy, place, note_unused, look);
        place->n_items /= LOOKS_AN_ITEM;
        return has_more;
}

static void add(struct session *session, struct board_total *totals)
{
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++) {
                struct board_stats stats = board_stats_read(session, pool);
                struct board_total *total = &totals[pool];

                total->n_clients += client_charged(session->client, pool) != 0;
                total->allocated += stats.allocated;
                total->requested += stats.requested;
                board_stats_add(&total->hits, stats.hits);
                board_stats_add(&total->misses, stats.misses);
        }
}

/* Each board is a page of its own, and few of many are in the CPU's cache: all are on their way before one is read. */
static bool look_at_boards(const struct server *server, struct stats_look *look,
                           struct numbered_walk *place)
{
        struct session *met[PART_ITEMS];
        unsigned n = 0;

        while (n < PART_ITEMS && (met[n] = numbered_next(&server->sessions_by_number, place))) {
                __builtin_prefetch(&met[n++]->client);
                numbered_spend(place, server->n_pools / LISTING_POOLS_AN_ITEM);
        }
        for (unsigned i = 0; i < n; i++)
                board_stats_prefetch(met[i]);
        for (unsigned i = 0; i < n; i++) {
                if (met[i]->has_asked && session_has_client(met[i]))
                        add(met[i], look->totals);
        }
        return !numbered_is_over(&server->sessions_by_number, place);
}

static void listing_free(struct listing *listing)
{
        row_buffer_clear(&listing->rows);
        look_forget(&listing->look);
        free(listing->more);
        free(listing);
}

static void forget_listing(struct walk *walk)
{
        listing_free(listing_of(walk));
}

void listing_begin(struct session *session, const struct frame *request,
                   struct listing *take_listing, bool (*const *parts)(struct walk *walk))
{
        if (!take_listing || look_begin(session->server, &take_listing->look)) {
                if (take_listing)
                        listing_free(take_listing);
                session_refuse_for_memory(session, request->serial);
                return;
        }
        walk_begin(session, request, &take_listing->walk, parts, forget_listing);
}

void listing_note_unused(struct listing *listing, const struct block_listing *block)
{
        if (block->is_idle || block->state == BLOCK_IS_CACHED)
                note_unused(block->pool, block->n_bytes, &listing->look);
}

bool listing_see_idle(struct walk *walk)
{
        return look_at_blocks(walk->asker->server, &listing_of(walk)->look, &walk->place);
}

bool listing_add_boards(struct walk *walk)
{
        return look_at_boards(walk->asker->server, &listing_of(walk)->look, &walk->place);
}

bool listing_write_rows(struct walk *walk)
{
        return row_buffer_write_some(&listing_of(walk)->rows);
}

/* What clients report may include memory that they have lost, which is not leased any more. The largest block that the
 * walk met may have been taken since. */
static void fill_free(struct stats_row *row, uint64_t n_largest_bytes)
{
        uint64_t n_used_bytes = row->idle + row->allocated;

        row->split = row->leased > n_used_bytes ? row->leased - n_used_bytes : 0;
        row->free = row->cached + row->idle + row->split;
        row->largest_free = n_largest_bytes < row->cached + row->idle ? n_largest_bytes
                                                                      : row->cached + row->idle;
        if (row->free)
                row->fragmentation = 1000 - (uint64_t)((double)row->largest_free * 1000 /
                                                       (double)row->free);
}

static int fill(struct server *server, uint32_t pool, const struct board_total *total,
                struct stats_row *row)
{
        struct pool_stats stats;
        int r = policy_pool_stats(server->policy, pool, &stats);

        if (r)
                return err_fold(r);
        *row = (struct stats_row){
                .pool = pool,
                .kind = server->pools[pool].row.kind,
                .max = stats.max,
                .reserved = stats.reserved,
                .reserved_peak = stats.reserved_peak,
                .leased = stats.leased,
                .cached = stats.cached,
                .idle = policy_idle_bytes(server->policy, pool),
                .lingering = stats.lingering,
                .charged = stats.charged,
                .declared = stats.declared,
                .blocks = stats.n_blocks,
                .leases = stats.n_leases,
                .waiting = stats.n_waiting,
                .cache_grants = stats.n_grants_from_cache,
                .creates = stats.n_creates,
                .releases = stats.n_releases,
                .refusals = stats.n_refusals,
                .revocations = stats.n_revocations,
                .known_grants = stats.n_known_grants,
                .notices = stats.n_notices,
                .leased_peak = stats.leased_peak,
                .cached_peak = stats.cached_peak,
                .aged = stats.n_aged,
        };
        driver_health_fill(server, pool, row);
        device_watch_fill(&server->pools[pool], stats.reserved, row);
        row->clients = total->n_clients;
        row->allocated = total->allocated;
        row->requested = total->requested;
        fill_free(row, total->largest_free);
        row->hits = total->hits;
        row->misses = total->misses;
        return 0;
}

/* A file with a row of statistics for each pool. */
static int make_stats(struct session *session, const struct stats_look *look, int *ret_fd)
{
        struct server *server = session->server;
        CLEANUP(freep)
        struct stats_row *rows = calloc(server->n_pools, sizeof(*rows));

        if (!rows)
                return -ENOMEM;
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                int r = fill(server, pool, &look->totals[pool], &rows[pool]);

                if (r)
                        return r;
                rows[pool].list_changes = policy_n_changes(server->policy) - look->n_changes;
        }
        return reply_files_make(session, rows, server->n_pools * sizeof(*rows), ret_fd);
}

/* The replies differ in their kind only. */
static_assert(sizeof(struct message_clients_reply) == sizeof(struct message_blocks_reply) &&
                      sizeof(struct message_clients_reply) == sizeof(struct message_tenants_reply),
              "one layout for every list");

static int make_fds(struct listing *listing, struct fdset *fds)
{
        int fd, r;

        r = row_buffer_take_file(&listing->rows, listing->walk.asker, &fd);
        if (!r)
                r = fdset_add(fds, fd);
        if (!r)
                r = make_stats(listing->walk.asker, &listing->look, &fd);
        return r ? r : fdset_add(fds, fd);
}

bool listing_reply(struct walk *walk)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame reply = FRAME_NULL;
        struct listing *listing = listing_of(walk);
        int r;

        r = make_fds(listing, &fds);
        if (r) {
                row_buffer_refuse(&listing->rows, walk->asker, walk->request.serial, r);
                return false;
        }
        reply.clients_reply = (struct message_clients_reply){
                .n_rows = listing->rows.n_rows,
                .n_row_bytes = (uint32_t)listing->rows.n_row_bytes,
                .n_pools = listing->walk.asker->server->n_pools,
                .n_pool_bytes = sizeof(struct stats_row),
        };
        session_send(walk->asker, &reply, listing->reply_kind, walk->request.serial, fds.fds,
                     fds.n);
        return false;
}

/* A part of the look that is under way, or of another. */
static int go_on_looking(struct server *server)
{
        struct stats_look *next = &server->stats.next;
        struct numbered_walk *place = &server->stats.place;

        if (!next->totals) {
                int r = look_begin(server, next);

                if (r)
                        return r;
                next->number = ++server->stats.n_begun;
                server->stats.has_seen_blocks = false;
                place->next = 0;
        }
        numbered_go_on(place, PART_ITEMS);
        if (!server->stats.has_seen_blocks) {
                if (look_at_blocks(server, next, place))
                        return 0;
                server->stats.has_seen_blocks = true;
                place->next = 0;
        }
        if (look_at_boards(server, next, place))
                return 0;
        look_forget(&server->stats.last);
        server->stats.last = *next;
        next->totals = NULL;
        return 0;
}

/* Who asks with STATS. */
struct question {
        struct walk walk;
        uint64_t n_begun; /* looks, before it came */
};

/* While others wait for their steps, a look will do that is not older. */
#define LOOK_LASTS_MS 200

static bool is_served(const struct question *question)
{
        const struct server *server = question->walk.asker->server;
        const struct stats_look *last = &server->stats.last;

        if (!last->totals)
                return false;
        return last->number > question->n_begun ||
               (scheduler_has_work(&server->scheduler) &&
                server_now_ns(server) - last->began_ns < LOOK_LASTS_MS * NS_PER_MS);
}

static void reply_with_stats(struct session *asker, const struct frame *request)
{
        CLEANUP(closep)
        int fd = -1;
        struct frame reply = FRAME_NULL;
        int r;

        r = make_stats(asker, &asker->server->stats.last, &fd);
        if (r) {
                rows_refuse_file(asker, request->serial, r);
                return;
        }
        reply.stats_reply.n_rows = asker->server->n_pools;
        reply.stats_reply.n_row_bytes = sizeof(struct stats_row);
        session_send(asker, &reply, MESSAGE_STATS_REPLY, request->serial, &fd, 1);
}

static void look_on(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, stats.looking);

        if (!go_on_looking(server) && server->stats.next.totals)
                payer_put(&server->scheduler.node, task);
}

/* A program that asks again and again would wait for a whole look each time that the last one is too old. */
static void look_ahead(struct server *server)
{
        if (server_now_ns(server) - server->stats.last.began_ns < LOOK_LASTS_MS * NS_PER_MS / 2)
                return;
        server->stats.looking.step = look_on;
        payer_put(&server->scheduler.node, &server->stats.looking);
}

/* A step is a part of the look, or the answer: both in one would take too long. */
static bool look_or_reply(struct walk *walk)
{
        if (walk->has_rested && is_served(CONTAINER_OF(walk, struct question, walk))) {
                reply_with_stats(walk->asker, &walk->request);
                look_ahead(walk->asker->server);
                return false;
        }
        if (go_on_looking(walk->asker->server)) {
                session_refuse_for_memory(walk->asker, walk->request.serial);
                return false;
        }
        return true;
}

static void question_free(struct walk *walk)
{
        free(CONTAINER_OF(walk, struct question, walk));
}

void list_stats_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {look_or_reply, NULL};
        struct question *question = calloc(1, sizeof(*question));

        if (!question) {
                session_refuse_for_memory(session, frame->serial);
                return;
        }
        question->n_begun = session->server->stats.n_begun;
        walk_begin(session, frame, &question->walk, parts, question_free);
}

void list_stats_close(struct server *server)
{
        payer_take_out(&server->stats.looking);
        look_forget(&server->stats.last);
        look_forget(&server->stats.next);
}
