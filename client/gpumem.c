/* The public functions: arguments are checked here, streams are told apart, and what must be waited
 * for is waited for. */
#include "gpumem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "base/memfd.h"
#include "client/client.h"
#include "client/fork.h"
#include "client/link.h"
#include "client/nearest.h"
#include "client/pool.h"
#include "client/rows.h"
#include "client/shared.h"
#include "driver/device.h"

/* The kernel's own bound. */
#define ERRNO_MAX 4095

/* Of a pool whose blocks this version does not know how to map: nobody asks for it. */
#define KIND_UNKNOWN 0

struct gpumem_client {
        struct fork_guard fork_guard;
        struct link *link;
        struct cuda cuda;
        bool has_cuda;
        struct pool *pools;
        uint32_t n_pools;
        void *board;
        size_t n_board_bytes;
};

int client_check(const struct gpumem_client *client)
{
        return fork_guard_check(&client->fork_guard);
}

struct link *client_link(struct gpumem_client *client)
{
        return client->link;
}

const struct cuda *client_cuda(const struct gpumem_client *client)
{
        return client->has_cuda ? &client->cuda : NULL;
}

struct pool *client_pool(struct gpumem_client *client, uint32_t id)
{
        return id < client->n_pools ? &client->pools[id] : NULL;
}

int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes)
{
        const char *bytes = theirs;

        if (n_their_bytes <= sizeof(size_t))
                return -EINVAL;
        for (size_t i = n_our_bytes; i < n_their_bytes; i++) {
                if (bytes[i])
                        return -E2BIG;
        }
        memset(ours, 0, n_our_bytes);
        memcpy(ours, theirs, n_their_bytes < n_our_bytes ? n_their_bytes : n_our_bytes);
        return 0;
}

/* A machine without a driver is served too: pinned memory is shared memory there. */
static void load_driver(struct gpumem_client *client, const char *library)
{
        char reason[CUDA_REASON_MAX];

        client->has_cuda = cuda_load(library, &client->cuda, reason) == 0;
        if (!client->has_cuda)
                log_debug("pinned memory only: %s", reason);
}

static int map_board(struct gpumem_client *client, const struct message_welcome *welcome, int fd)
{
        int r;

        if (welcome->n_board_bytes < board_bytes(welcome->n_pools))
                return -EPROTO;
        r = memfd_check(fd, welcome->n_board_bytes);
        if (!r)
                r = memfd_map_shared(fd, welcome->n_board_bytes, &client->board);
        if (r)
                return r;
        client->n_board_bytes = welcome->n_board_bytes;
        return madvise(client->board, client->n_board_bytes, MADV_DONTFORK) < 0 ? err_errno() : 0;
}

/* Devices are known by their UUID: the daemon's order is not this process's. */
static struct memory memory_of(const struct gpumem_client *client, const struct pool_row *row)
{
        struct memory memory = {.kind = (enum gpumem_kind)row->kind,
                                .cuda = client->has_cuda ? &client->cuda : NULL,
                                .ordinal = -1,
                                .pinned = row->properties & PROTO_POOL_VMM ? MEMORY_VMM
                                                                           : MEMORY_MEMFD,
                                .node = (int)row->place};
        struct device device;

        if (row->kind == GPUMEM_DEVICE && client->has_cuda &&
            device_find(&client->cuda, row->uuid, &device) == 0)
                memory.ordinal = device.ordinal;
        return memory;
}

static void limit_pool(struct pool *pool, double fraction)
{
        if (pool->row.kind == GPUMEM_DEVICE)
                limit_set(pool, limit_of_fraction(fraction, pool->row.n_capacity_bytes));
}

static int add_pools(struct gpumem_client *client, const struct message_welcome *welcome, int fd)
{
        CLEANUP(freep)
        void *sent = NULL;
        struct pool_row *rows;
        double fraction;
        int r;

        r = limit_read_fraction(&fraction);
        if (r)
                return r;
        r = rows_read(fd, welcome->n_pools, welcome->n_row_bytes, sizeof(*rows), &sent);
        if (r)
                return r;
        rows = sent;
        client->pools = calloc(welcome->n_pools, sizeof(*client->pools));
        if (!client->pools)
                return -ENOMEM;
        for (uint32_t i = 0; i < welcome->n_pools; i++) {
                struct memory memory = memory_of(client, &rows[i]);

                if (rows[i].id != i)
                        return -EPROTO;
                if (rows[i].properties & ~PROTO_POOL_PROPERTIES)
                        rows[i].kind = KIND_UNKNOWN;
                pool_init(&client->pools[i], &rows[i], &memory, client->link,
                          board_counters(client->board, i));
                limit_pool(&client->pools[i], fraction);
                client->n_pools++;
        }
        return 0;
}

static int open_client(struct gpumem_client *client, const struct gpumem_options *options)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        const char *program = options->program ? options->program : program_invocation_short_name;
        struct message_welcome welcome;
        int r;

        r = link_new(options->socket_path, program, &client->link, &welcome, &fds);
        if (r)
                return r;
        /* Before the driver is loaded, which takes long: a fork meanwhile must close the socket. */
        r = fork_guard_init(&client->fork_guard, link_socket(client->link));
        if (r)
                return r;
        load_driver(client, options->cuda_library);
        r = map_board(client, &welcome, fds.fds[0]);
        if (!r)
                r = add_pools(client, &welcome, fds.fds[1]);
        return r;
}

int gpumem_connect(const struct gpumem_options *options, struct gpumem_client **ret_client)
{
        struct gpumem_options ours = {.struct_size = sizeof(ours)};
        struct gpumem_client *client;
        int r;

        if (options) {
                r = take_struct(options, options->struct_size, &ours, sizeof(ours));
                if (r)
                        return r;
        }
        client = calloc(1, sizeof(*client));
        if (!client)
                return -ENOMEM;
        r = open_client(client, &ours);
        if (r) {
                gpumem_disconnect(client);
                return r;
        }
        *ret_client = client;
        return 0;
}

/* In a forked child everything is the parent's, but the child's copy of the bookkeeping. */
void gpumem_disconnect(struct gpumem_client *client)
{
        if (!client)
                return;
        if (client->fork_guard.here && fork_guard_check(&client->fork_guard)) {
                free(client->pools);
                free(client);
                return;
        }
        for (uint32_t i = 0; i < client->n_pools; i++)
                pool_deinit(&client->pools[i]);
        free(client->pools);
        if (client->board)
                (void)munmap(client->board, client->n_board_bytes);
        fork_guard_deinit(&client->fork_guard);
        link_free(client->link);
        free(client);
}

/* The pool of a device of this process, or of a NUMA node. */
static struct pool *pool_at(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        if (kind == GPUMEM_PINNED && place == GPUMEM_NEAREST)
                return nearest_pinned(client->pools, client->n_pools,
                                      client->has_cuda ? &client->cuda : NULL);
        for (uint32_t i = 0; i < client->n_pools; i++) {
                struct pool *pool = &client->pools[i];
                int here = kind == GPUMEM_DEVICE ? pool->memory.ordinal : pool->memory.node;

                if (pool->row.kind == (uint32_t)kind && here == place)
                        return pool;
        }
        return NULL;
}

static int place_device(struct gpumem_client *client, const struct gpumem_request *request,
                        struct stream_key *ret_key, int32_t *ret_place)
{
        int ordinal, r;

        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = stream_identify(&client->cuda, request->stream, ret_key, &ordinal);
        if (r)
                return r;
        if (request->place != GPUMEM_NEAREST && request->place != ordinal)
                return pool_at(client, GPUMEM_DEVICE, request->place) ? GPUMEM_E_WRONG_STREAM
                                                                      : GPUMEM_E_NO_POOL;
        *ret_place = ordinal;
        return 0;
}

/* Pinned memory is ordered by streams where there are any. */
static int place_pinned(struct gpumem_client *client, const struct gpumem_request *request,
                        struct stream_key *ret_key)
{
        int ordinal, r = GPUMEM_E_NO_CONTEXT;

        if (client->has_cuda)
                r = stream_identify(&client->cuda, request->stream, ret_key, &ordinal);
        else if (request->stream)
                return GPUMEM_E_NO_DRIVER;
        if (r != GPUMEM_E_NO_CONTEXT)
                return r;
        *ret_key = (struct stream_key){.context = 0};
        return 0;
}

static int alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        int32_t place = request->place;
        struct stream_key key;
        struct pool *pool;
        int r;

        if (request->n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (request->flags & ~GPUMEM_SHAREABLE)
                return GPUMEM_E_UNSUPPORTED;
        if (request->kind == GPUMEM_DEVICE)
                r = place_device(client, request, &key, &place);
        else if (request->kind == GPUMEM_PINNED)
                r = place_pinned(client, request, &key);
        else
                r = GPUMEM_E_BAD_REQUEST;
        if (r)
                return r;
        pool = pool_at(client, request->kind, place);
        if (!pool)
                return GPUMEM_E_NO_POOL;
        if (request->flags & GPUMEM_SHAREABLE)
                return shared_alloc(pool, &key, request->n_bytes, request->wait_ms, ret_pointer);
        return pool_alloc(pool, &key, request->n_bytes, request->wait_ms, ret_pointer);
}

int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        struct gpumem_request ours;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (!r)
                r = take_struct(request, request->struct_size, &ours, sizeof(ours));
        return r ? r : alloc(client, &ours, ret_pointer);
}

static int find_allocation(struct gpumem_client *client, const void *pointer,
                           struct pool **ret_pool, struct stream_key *ret_key)
{
        for (uint32_t i = 0; i < client->n_pools; i++) {
                if (pool_find(&client->pools[i], pointer, ret_key) == 0) {
                        *ret_pool = &client->pools[i];
                        return 0;
                }
        }
        return GPUMEM_E_NOT_OURS;
}

/* Nothing that runs on a device uses it any more. */
static int free_unordered(struct pool *pool, void *pointer)
{
        struct emptied emptied;
        int r = pool_free(pool, pointer, &emptied);

        if (!r && emptied.address)
                pool_retire(pool, &emptied);
        return r;
}

static int free_after_context(struct gpumem_client *client, struct pool *pool, uint64_t context,
                              void *pointer)
{
        int r = stream_synchronize_context(&client->cuda, context);

        return r ? r : free_unordered(pool, pointer);
}

/* The memory goes back to the heap of the stream that it was allocated for. Device memory that is
 * freed in that stream's order needs no waiting before. Any other free does, and pinned memory
 * always: its next owner writes with the CPU, which no stream holds up. */
static int free_in_order(struct gpumem_client *client, struct pool *pool,
                         const struct stream_key *key, void *pointer, void *stream)
{
        struct stream_key free_key = {.context = 0};
        struct emptied emptied;
        bool same_stream;
        int ordinal, r;

        if (!key->context)
                return free_unordered(pool, pointer);
        r = stream_identify(&client->cuda, stream, &free_key, &ordinal);
        /* The memory was made without a context, and is freed by somebody who has none. */
        if (r == GPUMEM_E_NO_CONTEXT && key->id == POOL_ANY_STREAM)
                return free_after_context(client, pool, key->context, pointer);
        if (r)
                return r;
        same_stream = memcmp(key, &free_key, sizeof(*key)) == 0;
        if (!same_stream || pool->memory.kind == GPUMEM_PINNED)
                r = stream_synchronize(&client->cuda, stream);
        if (!r)
                r = pool_free(pool, pointer, &emptied);
        if (r || !emptied.address)
                return r;
        /* Earlier frees of the block's other allocations were in the heap's stream, which may be
         * gone by now: its context waits for what it had. */
        r = same_stream ? stream_synchronize(&client->cuda, stream)
                        : stream_synchronize_context(&client->cuda, key->context);
        if (!r)
                pool_retire(pool, &emptied);
        return r;
}

int gpumem_free(struct gpumem_client *client, void *pointer, void *stream)
{
        struct stream_key key;
        struct pool *pool;
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (!r)
                r = find_allocation(client, pointer, &pool, &key);
        if (r == GPUMEM_E_NOT_OURS)
                return client_free_shared(client, pointer, stream);
        return r ? r : free_in_order(client, pool, &key, pointer, stream);
}

int gpumem_free_sync(struct gpumem_client *client, void *pointer)
{
        struct stream_key key;
        struct pool *pool;
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (!r)
                r = find_allocation(client, pointer, &pool, &key);
        if (r == GPUMEM_E_NOT_OURS)
                return client_free_shared_sync(client, pointer);
        if (!r && client->has_cuda)
                r = stream_synchronize_contexts(&client->cuda, key.context);
        return r ? r : free_unordered(pool, pointer);
}

static void read_stats(struct pool *pool, struct gpumem_stats *ret_stats)
{
        const struct board_counters *counters = pool->counters;

        pthread_mutex_lock(&pool->lock);
        *ret_stats = (struct gpumem_stats){
                .n_requested_bytes = atomic_load(&counters->requested),
                .n_requested_peak_bytes = atomic_load(&counters->requested_peak),
                .n_allocated_bytes = atomic_load(&counters->allocated),
                .n_allocated_peak_bytes = atomic_load(&counters->allocated_peak),
                .n_reserved_bytes = pool->n_reserved_bytes,
                .n_reserved_peak_bytes = pool->n_reserved_peak_bytes,
                .n_hits = atomic_load(&counters->hits),
                .n_misses = atomic_load(&counters->misses),
                .n_blocks = pool->n_blocks,
        };
        pthread_mutex_unlock(&pool->lock);
}

int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct gpumem_stats *ret_stats)
{
        size_t n_bytes = ret_stats->struct_size;
        struct gpumem_stats stats;
        struct pool *pool;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (n_bytes <= sizeof(size_t) || n_bytes > sizeof(stats))
                return -EINVAL;
        if (kind != GPUMEM_DEVICE && kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        pool = pool_at(client, kind, place);
        if (!pool)
                return GPUMEM_E_NO_POOL;
        read_stats(pool, &stats);
        stats.struct_size = n_bytes;
        memcpy(ret_stats, &stats, n_bytes);
        return 0;
}

int gpumem_set_limit(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     uint64_t n_bytes)
{
        struct pool *pool;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (kind != GPUMEM_DEVICE && kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        pool = pool_at(client, kind, place);
        if (!pool)
                return GPUMEM_E_NO_POOL;
        limit_set(pool, n_bytes);
        return 0;
}

int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                           uint64_t *ret_freed_bytes)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (scope != GPUMEM_SCOPE_TENANT && scope != GPUMEM_SCOPE_NODE)
                return GPUMEM_E_BAD_REQUEST;
        request.free_all_blocks.scope = (uint32_t)scope;
        request.free_all_blocks.pool = PROTO_ALL_POOLS;
        r = link_call(client->link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
        if (r)
                return r;
        if (ret_freed_bytes)
                *ret_freed_bytes = reply.freed.n_bytes;
        return 0;
}

const char *gpumem_strerror(int result)
{
        const char *text;

        if (result == 0)
                return "success";
        if (result > 0)
                text = proto_error_text(result);
        else
                text = result >= -ERRNO_MAX ? strerrordesc_np(-result) : NULL;
        return text ? text : "an unknown result";
}
