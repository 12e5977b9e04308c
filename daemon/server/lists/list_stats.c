/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_stats.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/reply_files.h"
#include "gpumem.h"

static void add(const struct session *session, struct board_total *totals)
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

static void listing_free(struct walk *walk)
{
        struct listing *listing = listing_of(walk);

        row_buffer_deinit(&listing->rows);
        free(listing->totals);
        free(listing->more);
        free(listing);
}

void listing_begin(struct session *session, const struct frame *request,
                   struct listing *take_listing, bool (*const *parts)(struct walk *walk))
{
        if (take_listing)
                take_listing->totals = calloc(session->server->n_pools,
                                              sizeof(take_listing->totals[0]));
        if (!take_listing || !take_listing->totals) {
                if (take_listing)
                        free(take_listing->more);
                free(take_listing);
                session_send_error(session, request->serial, GPUMEM_E_TOO_MANY,
                                   "out of memory in gpumemd");
                return;
        }
        take_listing->n_changes = policy_n_changes(session->server->policy);
        take_listing->began_ns = server_now_ns(session->server);
        walk_begin(session, request, &take_listing->walk, parts, listing_free);
}

static void note_unused(uint32_t pool, uint64_t n_bytes, void *argument)
{
        struct board_total *total = &listing_of(argument)->totals[pool];

        if (n_bytes > total->largest_free)
                total->largest_free = n_bytes;
}

void listing_note_unused(struct listing *listing, const struct block_listing *block)
{
        if (block->is_idle || block->state == BLOCK_IS_CACHED)
                note_unused(block->pool, block->n_bytes, &listing->walk);
}

/* So many blocks that are only looked at take as long as an item of other walks. */
#define LOOKS_AN_ITEM 4

bool listing_see_idle(struct walk *walk)
{
        bool has_more;

        walk->place.n_items *= LOOKS_AN_ITEM;
        has_more = policy_list_unused(walk->asker->server->policy, &walk->place, note_unused, walk);
        walk->place.n_items /= LOOKS_AN_ITEM;
        return has_more;
}

bool listing_write_rows(struct walk *walk)
{
        return row_buffer_write_some(&listing_of(walk)->rows, &walk->place);
}

bool listing_add_boards(struct walk *walk)
{
        const struct session *session;

        while ((session = walk_next_session(walk))) {
                if (session_has_client(session))
                        add(session, listing_of(walk)->totals);
        }
        return walk_has_more_sessions(walk);
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
                .steps = server->scheduler.stats.n_steps,
                .late_steps = server->scheduler.stats.n_late,
                .longest_step = server->scheduler.stats.longest_ns,
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

int list_stats_make(const struct listing *listing, int *ret_fd)
{
        struct session *session = listing->walk.asker;
        struct server *server = session->server;
        CLEANUP(freep)
        struct stats_row *rows = calloc(server->n_pools, sizeof(*rows));

        if (!rows)
                return -ENOMEM;
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                int r = fill(server, pool, &listing->totals[pool], &rows[pool]);

                if (r)
                        return r;
                rows[pool].list_changes = policy_n_changes(server->policy) - listing->n_changes;
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
                r = list_stats_make(listing, &fd);
        return r ? r : fdset_add(fds, fd);
}

static void refuse(const struct listing *listing)
{
        session_send_error(listing->walk.asker, listing->walk.request.serial, GPUMEM_E_TOO_MANY,
                           "out of memory in gpumemd");
}

bool listing_reply(struct walk *walk)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame reply = FRAME_NULL;
        struct listing *listing = listing_of(walk);

        if (make_fds(listing, &fds)) {
                refuse(listing);
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

static void reply_with_stats(const struct listing *listing)
{
        CLEANUP(closep)
        int fd = -1;
        struct session *asker = listing->walk.asker;
        struct frame reply = FRAME_NULL;

        if (list_stats_make(listing, &fd)) {
                refuse(listing);
                return;
        }
        reply.stats_reply.n_rows = asker->server->n_pools;
        reply.stats_reply.n_row_bytes = sizeof(struct stats_row);
        session_send(asker, &reply, MESSAGE_STATS_REPLY, listing->walk.request.serial, &fd, 1);
}

/* A look that was over in one step is not worth keeping. */
static bool keep_and_reply(struct walk *walk)
{
        struct listing *listing = listing_of(walk);
        struct stats_look *look = &walk->asker->server->stats_look;

        reply_with_stats(listing);
        if (!walk->has_rested)
                return false;
        free(look->totals);
        *look = (struct stats_look){.totals = steal_ptr(listing->totals),
                                    .n_changes = listing->n_changes,
                                    .began_ns = listing->began_ns};
        return false;
}

/* While others wait for their steps, a look at all blocks and boards serves all who ask within this time. */
#define LOOK_KEPT_MS 200

static bool look_serves(struct server *server)
{
        const struct stats_look *look = &server->stats_look;

        return look->totals && scheduler_has_work(&server->scheduler) &&
               server_now_ns(server) - look->began_ns < LOOK_KEPT_MS * NS_PER_MS;
}

void list_stats_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {listing_see_idle, listing_add_boards,
                                                            keep_and_reply, NULL};
        const struct stats_look *look = &session->server->stats_look;
        const struct listing last = {.walk = {.asker = session, .request = *frame},
                                     .totals = look->totals,
                                     .n_changes = look->n_changes};

        if (look_serves(session->server))
                reply_with_stats(&last);
        else
                listing_begin(session, frame, calloc(1, sizeof(struct listing)), parts);
}

void list_stats_close(struct server *server)
{
        free(server->stats_look.totals);
        server->stats_look = (struct stats_look){.totals = NULL};
}
