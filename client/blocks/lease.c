/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/lease.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "client/blocks/addresses.h"
#include "client/blocks/binding.h"
#include "client/blocks/client_limit.h"
#include "client/blocks/ipc_mapping.h"
#include "client/blocks/lease_messages.h"
#include "client/connection/link.h"
#include "client/mapping/host_register.h"
#include "gpumem.h"

/* Records are reused, and not freed before the pool ends: other threads may read one long after its block has gone. */
static struct leased *take_record(struct pool *pool)
{
        struct leased *leased = LIST_FIRST(&pool->spare_leased);

        if (leased) {
                LIST_REMOVE(leased, link);
                return leased;
        }
        leased = aligned_alloc(_Alignof(struct leased), sizeof(*leased));
        if (leased)
                *leased = (struct leased){.number = 0};
        return leased;
}

static void keep_record(struct pool *pool, struct leased *leased)
{
        leased->block.lease = leased->number = leased->connection = 0;
        leased->block.word = NULL;
        leased->block.is_pledged = false;
        leased->is_revoked = false;
        leased->is_unused = false;
        leased->mapping = MAPPING_PLAIN;
        leased->shared = NULL;
        leased->is_attached = false;
        leased->handle = 0;
        leased->context = 0;
        leased->context_id = 0;
        leased->block.context_id = 0;
        leased->n_opens = 0;
        LIST_INSERT_HEAD(&pool->spare_leased, leased, link);
}

int leased_reserve(struct pool *pool, uint64_t start, uint64_t n_bytes, struct leased **ret_leased)
{
        struct leased *leased;
        bool is_placed = !pool->memory.is_ipc;
        int r = addresses_open(pool);

        if (!r && !start && is_placed) {
                r = arena_choose(pool->arena, n_bytes, ARENA_CLOSE, &start);
                if (r && addresses_widen(pool, n_bytes))
                        r = arena_choose(pool->arena, n_bytes, ARENA_CLOSE, &start);
        }
        if (r)
                return r;
        leased = take_record(pool);
        if (!leased)
                return -ENOMEM;
        leased->block.at = (struct arena_block){is_placed ? start : 0, n_bytes};
        r = is_placed ? arena_put(pool->arena, &leased->block.at) : 0;
        if (r) {
                keep_record(pool, leased);
                return r;
        }
        *ret_leased = leased;
        return 0;
}

void leased_cancel(struct pool *pool, struct leased *leased)
{
        pthread_mutex_lock(&pool->lock);
        if (leased_address(leased))
                arena_take_out(pool->arena, &leased->block.at);
        keep_record(pool, leased);
        pthread_mutex_unlock(&pool->lock);
}

/* Gives up the addresses that were reserved for a larger block. */
static void shrink(struct pool *pool, struct leased *leased, uint64_t n_bytes)
{
        if (leased_bytes(leased) == n_bytes)
                return;
        pthread_mutex_lock(&pool->lock);
        if (leased_address(leased))
                arena_take_out(pool->arena, &leased->block.at);
        leased->block.at.n_bytes = n_bytes;
        /* Cannot fail: the arena had this block before. */
        if (leased_address(leased))
                (void)arena_put(pool->arena, &leased->block.at);
        pthread_mutex_unlock(&pool->lock);
}

/* Memory can be unregistered only in the context in which it was registered, so this finds out which that is. */
static int find_context(struct pool *pool, struct leased *leased, struct mapping_left *left)
{
        if (leased->mapping != MAPPING_REGISTERED || leased->context)
                return 0;
        leased->context = host_register_context(&pool->memory);
        if (leased->context)
                return 0;
        left->is_mapped = mapping_unmap(&pool->memory, leased_address(leased), leased_bytes(leased),
                                        leased->mapping) != 0;
        if (!left->is_mapped)
                leased->mapping = MAPPING_PLAIN;
        return -EIO;
}

static int map_ipc(struct pool *pool, struct leased *leased, int fd)
{
        struct ipc_mapping_way way = {.old = NULL};
        int r = ipc_mapping_open(pool, leased, fd, &way);

        leased_free_all(pool, &way.list);
        if (way.old) {
                lease_messages_end(pool, way.old);
                leased_cancel(pool, way.old);
        }
        return r;
}

static int map(struct pool *pool, struct leased *leased, int take_fd)
{
        CLEANUP(closep)
        int fd = take_fd;
        struct mapping_left left = {.handle = 0};
        int r;

        if (pool->memory.is_ipc)
                return map_ipc(pool, leased, fd);
        leased->context = host_register_context(&pool->memory);
        peer_access_hold(&pool->peer_access);
        r = mapping_map(&pool->memory, pool->peer_access.ordinals, leased_address(leased),
                        leased_bytes(leased), steal_fd(&fd), &leased->mapping, &left);
        if (!r)
                r = find_context(pool, leased, &left);
        leased->is_mapped = !r || left.is_mapped;
        leased->handle = left.handle;
        peer_access_release(&pool->peer_access);
        if (!r && leased->mapping != MAPPING_REGISTERED)
                leased->context = 0;
        leased->context_id = host_register_id(&pool->memory, leased->context);
        if (!r && !host_register_is_settled(&pool->memory, leased->mapping))
                leased->block.word = NULL;
        return r;
}

static void stick(struct pool *pool, struct leased *leased)
{
        pthread_mutex_lock(&pool->lock);
        LIST_INSERT_HEAD(&pool->stuck_leased, leased, link);
        pthread_mutex_unlock(&pool->lock);
}

/* Is something left of a block that could not be mapped? */
static bool is_left(const struct leased *leased)
{
        return leased->is_mapped || leased->handle;
}

/* A lack of cached blocks does not end the record: the caller asks for a new block then. */
static bool is_kept(const struct lease_request *request, int r)
{
        return request->flags && (r == GPUMEM_E_REFUSED || r == GPUMEM_E_UNSUPPORTED);
}

static int obtain(struct pool *pool, struct leased *leased, const struct lease_request *request)
{
        uint64_t n_bytes;
        int fd = -1, r;

        r = pool->memory.is_ipc ? ipc_mapping_check(pool) : 0;
        if (!r)
                r = client_limit_take(pool, request->n_bytes);
        if (r) {
                leased_cancel(pool, leased);
                return r;
        }
        r = lease_messages_request(pool, request, leased, &n_bytes, &fd);
        if (!r) {
                shrink(pool, leased, n_bytes);
                client_limit_correct(pool, request->n_bytes, leased_bytes(leased));
                r = map(pool, leased, fd);
                if (r && is_left(leased)) {
                        stick(pool, leased);
                        /* The caller must not take this for a record that is kept. */
                        return is_kept(request, r) ? -EIO : r;
                }
                if (r)
                        lease_messages_end(pool, leased);
        }
        if (r) {
                client_limit_give(pool,
                                  leased->block.lease ? leased_bytes(leased) : request->n_bytes);
                if (!is_kept(request, r))
                        leased_cancel(pool, leased);
        }
        return r;
}

int leased_obtain(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                  uint64_t n_least_bytes, uint32_t wait_ms)
{
        struct lease_request request = {n_bytes, n_least_bytes, leased_bytes(leased),
                                        0,       wait_ms,       0};

        return obtain(pool, leased, &request);
}

int leased_obtain_cached(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                         uint64_t n_least_bytes)
{
        struct lease_request request = {n_bytes, n_least_bytes,          leased_bytes(leased), 0,
                                        0,       PROTO_LEASE_ONLY_CACHED};

        return obtain(pool, leased, &request);
}

void leased_trim(struct pool *pool, struct leased *leased, uint64_t n_bytes)
{
        shrink(pool, leased, n_bytes);
}

int leased_obtain_new(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                      uint32_t properties, uint32_t wait_ms)
{
        struct lease_request request = {n_bytes, n_bytes, n_bytes, properties, wait_ms, 0};

        return obtain(pool, leased, &request);
}

/* Ends one block of a group that failed. What the driver did not release is stuck, and keeps its lease. */
static void give_up(struct pool *pool, struct leased *leased, int r)
{
        if (r && is_left(leased)) {
                stick(pool, leased);
                return;
        }
        if (!r) {
                leased_free(pool, leased);
                return;
        }
        lease_messages_end(pool, leased);
        client_limit_give(pool, leased_bytes(leased));
        leased_cancel(pool, leased);
}

static int map_together(struct pool *pool, struct leased *const *leased, unsigned n, int *take_fds)
{
        int results[LINK_TOGETHER_MAX], r = 0;

        for (unsigned i = 0; i < n; i++) {
                if (r)
                        (void)close(take_fds[i]);
                else
                        r = map(pool, leased[i], take_fds[i]);
                results[i] = r;
        }
        for (unsigned i = 0; i < n && r; i++)
                give_up(pool, leased[i], results[i]);
        return r;
}

int leased_obtain_together(struct pool *pool, struct leased *const *leased, unsigned n,
                           uint32_t wait_ms)
{
        int fds[LINK_TOGETHER_MAX], r;
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < n; i++)
                n_bytes += leased_bytes(leased[i]);
        r = client_limit_take(pool, n_bytes);
        if (!r) {
                r = lease_messages_request_together(pool, leased, n, wait_ms, fds);
                if (!r)
                        return map_together(pool, leased, n, fds);
                client_limit_give(pool, n_bytes);
        }
        for (unsigned i = 0; i < n; i++)
                leased_cancel(pool, leased[i]);
        return r;
}

static int reserve(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased)
{
        int r;

        pthread_mutex_lock(&pool->lock);
        r = n_bytes % ARENA_GRANULE ? -EPROTO : leased_reserve(pool, 0, n_bytes, ret_leased);
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, bool *ret_is_stuck, struct leased **ret_leased)
{
        CLEANUP(closep)
        int fd = take_fd;
        struct leased *leased;
        int r;

        r = reserve(pool, answer->n_block_bytes, &leased);
        if (r)
                return r;
        leased->block.lease = answer->lease;
        leased->number = answer->block;
        leased->connection = connection;
        leased->is_attached = true;
        r = binding_lease(pool, connection, leased_counted_bytes(leased));
        if (!r) {
                r = map(pool, leased, steal_fd(&fd));
                if (r && is_left(leased)) {
                        stick(pool, leased);
                        *ret_is_stuck = true;
                        return r;
                }
                if (r)
                        (void)binding_unmapped(pool, connection, leased_counted_bytes(leased));
        }
        if (r) {
                leased_cancel(pool, leased);
                return r;
        }
        *ret_leased = leased;
        return 0;
}

static void lose_words(struct heap *heap)
{
        spin_lock(&heap->lock);
        for (uint32_t i = 0; i < heap->n_blocks; i++)
                heap->blocks[i]->word = NULL;
        spin_unlock(&heap->lock);
}

void lease_lose_words(struct pool *pool)
{
        struct set_heap *heap;

        if (!pool->heap_set.arena)
                return;
        TAILQ_FOREACH (heap, &pool->heap_set.heaps, in_set)
                lose_words(&heap->heap);
        lose_words(&pool->heap_set.idle_list.heap);
}

/* Not in a context that has ended since, or that the program has reset. */
static bool is_registered(const struct pool *pool, const struct leased *leased)
{
        return leased->mapping == MAPPING_REGISTERED &&
               !host_register_is_over(&pool->memory, leased->context, leased->context_id);
}

void leased_describe(const struct pool *pool, const struct leased *leased, struct gpumem_info *info)
{
        info->kind = pool->memory.kind;
        info->place = pool_place(pool);
        info->block_base = (void *)(uintptr_t)leased_address(leased);
        info->n_block_bytes = leased_bytes(leased);
        info->block = leased->number;
        info->is_registered = is_registered(pool, leased);
        info->is_attached = leased->is_attached;
        info->is_held = leased->connection != pool->binding.connection;
}

static int unmap(struct pool *pool, struct leased *leased)
{
        int r;

        if (pool->memory.is_ipc)
                return ipc_mapping_close(pool, leased);
        peer_access_hold(&pool->peer_access);
        r = leased->is_mapped ? mapping_unmap(&pool->memory, leased_address(leased),
                                              leased_bytes(leased), leased->mapping)
                              : 0;
        leased->is_mapped = r != 0;
        peer_access_release(&pool->peer_access);
        if (!r && leased->handle)
                r = mapping_release_handle(&pool->memory, leased->handle);
        if (!r)
                leased->handle = 0;
        return r;
}

static int unregister(const struct pool *pool, struct leased *leased)
{
        int r;

        if (leased->mapping != MAPPING_REGISTERED)
                return 0;
        r = host_register_undo(&pool->memory, leased->context, leased->context_id,
                               leased_address(leased), leased_bytes(leased));
        if (!r)
                leased->mapping = MAPPING_PLAIN;
        return r;
}

/* Returns whether the block is gone. */
static bool let_go(struct pool *pool, struct leased *leased)
{
        int r = unregister(pool, leased);

        if (!r)
                r = unmap(pool, leased);
        if (r) {
                log_debug("a block of %llu bytes could not be unmapped and stays leased: %d",
                          (unsigned long long)leased_bytes(leased), r);
                stick(pool, leased);
                return false;
        }
        lease_messages_end(pool, leased);
        /* A block that another process has leased counts within that process's limit. */
        if (!leased->is_attached && !leased->is_revoked)
                client_limit_give(pool, leased_bytes(leased));
        leased_cancel(pool, leased);
        return true;
}

/* Takes the block that has been stuck for longest, so that each gets its turn. */
static struct leased *take_stuck(struct pool *pool)
{
        struct leased *leased, *last = NULL;

        pthread_mutex_lock(&pool->lock);
        LIST_FOREACH (leased, &pool->stuck_leased, link)
                last = leased;
        if (last)
                LIST_REMOVE(last, link);
        pthread_mutex_unlock(&pool->lock);
        return last;
}

void leased_free(struct pool *pool, struct leased *leased)
{
        struct leased *stuck = let_go(pool, leased) ? take_stuck(pool) : NULL;

        if (stuck)
                (void)let_go(pool, stuck);
}

void leased_free_stuck(struct pool *pool)
{
        const struct leased *leased;
        unsigned n = 0;

        pthread_mutex_lock(&pool->lock);
        LIST_FOREACH (leased, &pool->stuck_leased, link)
                n++;
        pthread_mutex_unlock(&pool->lock);
        for (; n; n--) {
                struct leased *stuck = take_stuck(pool);

                if (stuck)
                        (void)let_go(pool, stuck);
        }
}

void leased_free_all(struct pool *pool, struct leased_list *list)
{
        struct leased *leased;

        if (LIST_EMPTY(list))
                return;
        pool_stop_clock(pool);
        while ((leased = LIST_FIRST(list))) {
                LIST_REMOVE(leased, link);
                leased_free(pool, leased);
        }
        pool_start_clock(pool);
}

/* The block is `to`'s now. */
static void hand_over(struct leased *leased, struct leased *to)
{
        to->block.lease = leased->block.lease;
        to->block.word = leased->block.word;
        to->number = leased->number;
        to->connection = leased->connection;
        leased->block.lease = 0;
        leased->block.word = NULL;
}

/* Ends the lease of a block that was unmapped and could not be mapped again. */
static void end_unmapped(struct pool *pool, struct leased *leased)
{
        if (is_left(leased)) {
                stick(pool, leased);
                return;
        }
        lease_messages_end(pool, leased);
        client_limit_give(pool, leased_bytes(leased));
        leased_cancel(pool, leased);
}

static int move(struct pool *pool, struct leased *leased, struct leased *to, bool *ret_is_gone)
{
        struct mapping_left left = {.handle = 0};
        int r;

        peer_access_hold(&pool->peer_access);
        r = mapping_move(&pool->memory, pool->peer_access.ordinals, leased_address(leased),
                         leased_address(to), leased_bytes(leased), ret_is_gone, &left);
        if (*ret_is_gone) {
                hand_over(leased, to);
                leased->is_mapped = false;
                to->is_mapped = !r || left.is_mapped;
                to->handle = left.handle;
        } else
                leased->handle = left.handle;
        peer_access_release(&pool->peer_access);
        return r;
}

/* A handle that is left from the first mapping must be gone first: a record keeps one. */
int leased_move(struct pool *pool, struct leased *leased, struct leased *to)
{
        bool is_gone = false;
        int r = leased->handle ? mapping_release_handle(&pool->memory, leased->handle) : 0;

        if (!r) {
                leased->handle = 0;
                r = move(pool, leased, to, &is_gone);
        }
        if (!is_gone) {
                leased_cancel(pool, to);
                leased_free(pool, leased);
                return r;
        }
        leased_cancel(pool, leased);
        if (r)
                end_unmapped(pool, to);
        return r;
}

static int make_registered(struct pool *pool, struct leased *leased)
{
        uint64_t context;
        int r = host_register_make(&pool->memory, leased_address(leased), leased_bytes(leased),
                                   &context);

        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        leased->mapping = MAPPING_REGISTERED;
        leased->context = context;
        leased->context_id = host_register_id(&pool->memory, context);
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

int leased_register(struct pool *pool, struct leased *leased)
{
        int r = 0;

        if (pool->memory.kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        if (!pool->memory.cuda)
                return GPUMEM_E_NO_DRIVER;
        if (pool->memory.pinned == MEMORY_VMM)
                return 0;
        /* Two threads may register allocations of one block, which the driver accepts only once. */
        pthread_mutex_lock(&pool->registering);
        if (!is_registered(pool, leased))
                r = make_registered(pool, leased);
        pthread_mutex_unlock(&pool->registering);
        return r;
}

/* Returns the first mapped block from an address on; n_bytes 0: there is none. Meanwhile addresses may be chosen for
 * other blocks, but those of mapped blocks do not change. */
static struct arena_block next_mapped(void *owner, uint64_t address)
{
        struct arena_block found = {.n_bytes = 0};
        const struct leased *leased = NULL;
        struct pool *pool = owner;

        pthread_mutex_lock(&pool->lock);
        while (pool->arena && (leased = leased_of(arena_next(pool->arena, address))) &&
               !leased->is_mapped)
                address = leased_address(leased) + leased_bytes(leased);
        if (leased)
                found = leased->block.at;
        pthread_mutex_unlock(&pool->lock);
        return found;
}

int leased_allow_peer(struct pool *pool, int ordinal)
{
        return peer_access_allow(&pool->peer_access, pool->memory.cuda, ordinal, next_mapped, pool);
}
