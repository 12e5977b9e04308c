/* The public functions: arguments are checked here, streams are told apart, and what must be waited
 * for is waited for. */
#include "gpumem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/log.h"
#include "client/client.h"
#include "client/cache.h"
#include "client/fork.h"
#include "client/idle.h"
#include "client/nearest.h"
#include "client/patience.h"
#include "client/record.h"
#include "client/refusal.h"
#include "client/shared.h"

/* The kernel's own bound. */
#define ERRNO_MAX 4095

/* A power of two: more streams than most programs use. */
#define RECENT_HEAPS 64

struct gpumem_client {
        uint64_t number;
        struct fork_guard fork_guard;
        struct events events;
        struct uplink uplink;
        struct cuda cuda;
        bool has_cuda;
        uint64_t n_cache_bytes;                             /* of empty blocks, a pool, at most */
        _Atomic(struct stream_heap *) recent[RECENT_HEAPS]; /* by stream; device memory */
        double fraction;    /* of each device's memory that GPUMEM_MEMORY_FRACTION allows */
        struct pool *pools; /* room for all that may ever be seen */
        _Atomic uint32_t n_pools;
};

int client_check(const struct gpumem_client *client)
{
        return fork_guard_check(&client->fork_guard);
}

struct pool *client_pool(struct gpumem_client *client, uint32_t index)
{
        return index < client->n_pools ? &client->pools[index] : NULL;
}

struct pool *client_pool_on(struct gpumem_client *client, uint64_t connection, uint32_t id)
{
        struct pool *pool;
        uint32_t here;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (bind_find(pool, connection, &here) == 0 && here == id)
                        return pool;
        }
        return NULL;
}

struct uplink *client_uplink(struct gpumem_client *client)
{
        return &client->uplink;
}

struct events *client_events(struct gpumem_client *client)
{
        return &client->events;
}

const struct cuda *client_cuda(const struct gpumem_client *client)
{
        return client->has_cuda ? &client->cuda : NULL;
}

uint64_t client_number(const struct gpumem_client *client)
{
        return client->number;
}

int check_struct(size_t n_their_bytes, size_t n_our_bytes)
{
        return n_their_bytes <= sizeof(size_t) || n_their_bytes > n_our_bytes ? -EINVAL : 0;
}

int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes)
{
        const char *bytes = theirs;

        if (n_their_bytes <= sizeof(size_t))
                return -EINVAL;
        if (n_their_bytes == n_our_bytes) {
                memcpy(ours, theirs, n_our_bytes);
                return 0;
        }
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

static struct pool_set pool_set(struct gpumem_client *client)
{
        return (struct pool_set){.pools = client->pools,
                                 .n_pools = &client->n_pools,
                                 .cuda = client->has_cuda ? &client->cuda : NULL,
                                 .uplink = &client->uplink,
                                 .fraction = client->fraction,
                                 .n_cache_bytes = client->n_cache_bytes};
}

static uint64_t leave(void *owner)
{
        struct pool_set set = pool_set(owner);

        return bind_leave(&set);
}

static int meet(void *owner, struct connection *connection)
{
        struct gpumem_client *client = owner;
        struct pool_set set = pool_set(client);

        return bind_meet(&set, connection);
}

static void declare(void *owner)
{
        struct pool_set set = pool_set(owner);

        bind_declare(&set);
}

static const struct uplink_owner uplink_owner = {leave, meet, declare};

/* Refusals of threads are known by it. */
static int draw_number(uint64_t *ret_number)
{
        return getrandom(ret_number, sizeof(*ret_number), 0) < 0 ? err_errno() : 0;
}

static int open_client(struct gpumem_client *client, const struct gpumem_options *options)
{
        const char *program = options->program ? options->program : program_invocation_short_name;
        int r;

        client->pools = calloc(PROTO_POOLS_MAX, sizeof(*client->pools));
        r = client->pools ? draw_number(&client->number) : -ENOMEM;
        if (!r)
                r = limit_read_fraction(&client->fraction);
        if (!r)
                r = cache_read_size(&client->n_cache_bytes);
        if (!r)
                r = uplink_init(&client->uplink, options->socket_path, program, &client->events,
                                &uplink_owner, client);
        if (r)
                return r;
        r = fork_guard_init(&client->fork_guard);
        if (r)
                return r;
        load_driver(client, options->cuda_library);
        return meet(client, client->uplink.connection);
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
        events_init(&client->events);
        r = open_client(client, &ours);
        if (r) {
                gpumem_disconnect(client);
                return r;
        }
        record_start();
        *ret_client = client;
        return 0;
}

/* In a forked child everything is the parent's, but the child's copy of the bookkeeping. */
void gpumem_disconnect(struct gpumem_client *client)
{
        if (!client || events_in_callback())
                return;
        if (client->fork_guard.here && fork_guard_check(&client->fork_guard)) {
                free(client->pools);
                free(client);
                return;
        }
        if (record_is_on())
                record_disconnect(client);
        for (uint32_t i = 0; i < client->n_pools; i++)
                pool_deinit(&client->pools[i]);
        free(client->pools);
        fork_guard_deinit(&client->fork_guard);
        uplink_deinit(&client->uplink);
        events_deinit(&client->events);
        free(client);
}

static bool is_at(const struct pool *pool, enum gpumem_kind kind, int32_t place)
{
        int here = kind == GPUMEM_DEVICE ? pool->memory.ordinal : pool->memory.node;

        if (pool->row.kind != (uint32_t)kind)
                return false;
        return here == place || (kind == GPUMEM_PINNED && place == GPUMEM_NEAREST);
}

/* One that the daemon has rather than one that an earlier daemon had there: the next daemon may make
 * pinned memory of a node in another way. */
struct pool *client_pool_at(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        struct pool *found = NULL;

        if (kind == GPUMEM_PINNED && place == GPUMEM_NEAREST)
                found = nearest_pinned(client->pools, client->n_pools, client_cuda(client));
        for (uint32_t i = 0; !found && i < client->n_pools; i++) {
                if (is_at(&client->pools[i], kind, place) && !client->pools[i].binding.absent)
                        found = &client->pools[i];
        }
        for (uint32_t i = 0; !found && i < client->n_pools; i++) {
                if (is_at(&client->pools[i], kind, place))
                        found = &client->pools[i];
        }
        return found;
}

static int place_device(struct gpumem_client *client, const struct gpumem_request *request,
                        struct pool_request *ret_asked, int32_t *ret_place)
{
        int ordinal, r;

        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = stream_identify(&client->cuda, request->stream, &ret_asked->key, &ordinal);
        if (!r)
                r = stream_look(&client->cuda, request->stream, &ret_asked->mark);
        if (r)
                return r;
        if (request->place != GPUMEM_NEAREST && request->place != ordinal)
                return client_pool_at(client, GPUMEM_DEVICE, request->place) ? GPUMEM_E_WRONG_STREAM
                                                                             : GPUMEM_E_NO_POOL;
        *ret_place = ordinal;
        return 0;
}

/* Pinned memory is ordered by streams where there are any. */
static int place_pinned(struct gpumem_client *client, const struct gpumem_request *request,
                        struct pool_request *ret_asked)
{
        int ordinal, r = GPUMEM_E_NO_CONTEXT;

        if (client->has_cuda)
                r = stream_identify(&client->cuda, request->stream, &ret_asked->key, &ordinal);
        else if (request->stream)
                return GPUMEM_E_NO_DRIVER;
        if (!r)
                return stream_look(&client->cuda, request->stream, &ret_asked->mark);
        return r == GPUMEM_E_NO_CONTEXT ? 0 : r;
}

static _Atomic(struct stream_heap *) *recent(struct gpumem_client *client,
                                             const struct stream_mark *mark)
{
        return &client->recent[(mark->id ^ mark->scope >> 8) % RECENT_HEAPS];
}

static int alloc_from(struct gpumem_client *client, struct pool *pool,
                      const struct pool_request *asked, const struct gpumem_request *request,
                      void **ret_pointer)
{
        struct stream_heap *heap;
        int r;

        if (request->flags & GPUMEM_SHAREABLE)
                return shared_alloc(pool, &asked->key, request->n_bytes, request->wait_ms,
                                    ret_pointer);
        heap = pool_find_heap(pool, &asked->key);
        r = heap ? pool_hit(heap, &asked->mark, request->n_bytes, ret_pointer) : GPUMEM_E_REFUSED;
        if (r == GPUMEM_E_REFUSED)
                r = pool_alloc(pool, asked, &heap, ret_pointer);
        if (!r && request->kind == GPUMEM_DEVICE)
                atomic_store_explicit(recent(client, &asked->mark), heap, memory_order_release);
        return r;
}

static int alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        struct pool_request asked = {.stream = request->stream,
                                     .n_bytes = request->n_bytes,
                                     .wait_ms = request->wait_ms};
        int32_t place = request->place;
        struct pool *pool, *again;
        int r;

        if (request->n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (request->flags & ~GPUMEM_SHAREABLE)
                return GPUMEM_E_UNSUPPORTED;
        if (request->kind == GPUMEM_DEVICE)
                r = place_device(client, request, &asked, &place);
        else if (request->kind == GPUMEM_PINNED)
                r = place_pinned(client, request, &asked);
        else
                r = GPUMEM_E_BAD_REQUEST;
        if (r)
                return r;
        pool = client_pool_at(client, request->kind, place);
        if (!pool)
                uplink_renew(&client->uplink);
        else
                r = alloc_from(client, pool, &asked, request, ret_pointer);
        if (pool && r != GPUMEM_E_NO_POOL)
                return r;
        /* The next daemon may have been met by now, and have there what the last one had not. */
        again = client_pool_at(client, request->kind, place);
        return again == pool ? GPUMEM_E_NO_POOL
                             : alloc_from(client, again, &asked, request, ret_pointer);
}

/* Most requests end here: a hole of the stream's own heap holds them. GPUMEM_E_REFUSED: this one does
 * not, or it is not known yet whether. */
static int alloc_hit(struct gpumem_client *client, const struct gpumem_request *request,
                     void **ret_pointer)
{
        struct stream_heap *heap;
        struct stream_mark mark;
        int r;

        if (request->kind != GPUMEM_DEVICE || request->flags || !client->has_cuda)
                return GPUMEM_E_REFUSED;
        r = stream_look(&client->cuda, request->stream, &mark);
        if (r)
                return r;
        heap = atomic_load_explicit(recent(client, &mark), memory_order_acquire);
        if (!heap ||
            (request->place != GPUMEM_NEAREST && request->place != heap->pool->memory.ordinal))
                return GPUMEM_E_REFUSED;
        return pool_hit(heap, &mark, request->n_bytes, ret_pointer);
}

static void note_refusal(struct gpumem_client *client, int code,
                         const struct gpumem_request *request)
{
        struct gpumem_event event = {.kind = GPUMEM_EVENT_REFUSED,
                                     .result = code,
                                     .memory = request->kind,
                                     .place = request->place,
                                     .n_bytes = request->n_bytes};

        refusal_keep(client->number, code, request);
        (void)snprintf(event.text, sizeof(event.text), "%s", refusal_text());
        events_note(&client->events, &event);
}

int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        struct gpumem_request ours;
        struct patience patience;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (!r)
                r = take_struct(request, request->struct_size, &ours, sizeof(ours));
        if (r)
                return r;
        r = alloc_hit(client, &ours, ret_pointer);
        if (r == GPUMEM_E_REFUSED) {
                patience = patience_begin(ours.wait_ms);
                do
                        r = alloc(client, &ours, ret_pointer);
                while (patience_goes_on(&patience, &client->uplink, r, &ours.wait_ms));
        }
        if (record_is_on() && !r)
                record_alloc(client, &ours, *ret_pointer);
        if (refusal_is_one(r))
                note_refusal(client, r, &ours);
        events_tell(&client->events);
        return r;
}

static struct stream_heap *heap_of(struct gpumem_client *client, const void *pointer)
{
        struct stream_heap *heap = NULL;

        for (uint32_t i = 0; !heap && i < client->n_pools; i++)
                heap = pool_heap_of(&client->pools[i], pointer);
        return heap;
}

/* Its last use is ordered, or over. `own_stream`: the heap's, if it is at hand. */
static int free_in(struct stream_heap *heap, const void *pointer, void *const *own_stream)
{
        uint64_t generation = heap->generation;
        int r = pool_free(heap, pointer);

        if (r != POOL_LOOK)
                return r;
        idle_look(heap, generation, own_stream);
        return 0;
}

static bool is_streams_own(const struct stream_heap *heap, const struct stream_mark *mark)
{
        return heap->mark.id == mark->id && heap->mark.scope == mark->scope;
}

/* Memory that the driver makes is known to it, whether it was asked for with a context or not. */
static bool is_always_known(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM &&
               pool->memory.cuda;
}

/* The memory goes back to the heap of the stream that it was allocated for. Device memory that is
 * freed in that stream's order needs no waiting before. Any other free does, and pinned memory
 * always: its next owner writes with the CPU, which no stream holds up. */
static int free_in_order(struct gpumem_client *client, struct stream_heap *heap, void *pointer,
                         void *stream)
{
        struct stream_key order = pool_order_of(heap, pointer);
        struct stream_mark mark;
        bool is_own = false;
        int r;

        if (!order.context && !is_always_known(heap->pool))
                return free_in(heap, pointer, NULL);
        r = stream_look(&client->cuda, stream, &mark);
        if (!r)
                is_own = is_streams_own(heap, &mark);
        /* The memory was made without a context, and is freed by somebody who has none. */
        if (r == GPUMEM_E_NO_CONTEXT && !order.context)
                r = 0;
        else if (r == GPUMEM_E_NO_CONTEXT && order.id == POOL_ANY_STREAM)
                r = stream_synchronize_context(&client->cuda, order.context);
        else if (!r && (!is_own || heap->pool->memory.kind == GPUMEM_PINNED))
                r = stream_synchronize(&client->cuda, stream);
        return r ? r : free_in(heap, pointer, is_own ? &stream : NULL);
}

int gpumem_free(struct gpumem_client *client, void *pointer, void *stream)
{
        struct stream_heap *heap;
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        heap = heap_of(client, pointer);
        if (heap)
                r = free_in_order(client, heap, pointer, stream);
        else
                r = client_free_shared(client, pointer, stream);
        if (record_is_on() && !r)
                record_free(pointer);
        events_tell(&client->events);
        return r;
}

/* Nothing that runs on a device uses it any more. */
static int free_after_all(struct gpumem_client *client, struct stream_heap *heap, void *pointer)
{
        struct stream_key order = pool_order_of(heap, pointer);
        int r = client->has_cuda ? stream_synchronize_contexts(&client->cuda, order.context) : 0;

        return r ? r : free_in(heap, pointer, NULL);
}

int gpumem_free_sync(struct gpumem_client *client, void *pointer)
{
        struct stream_heap *heap;
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        heap = heap_of(client, pointer);
        if (heap)
                r = free_after_all(client, heap, pointer);
        else
                r = client_free_shared_sync(client, pointer);
        if (record_is_on() && !r)
                record_free(pointer);
        events_tell(&client->events);
        return r;
}

int gpumem_flush(struct gpumem_client *client, uint64_t *ret_freed_bytes)
{
        uint64_t n_bytes = 0;
        int r = fork_guard_check(&client->fork_guard);

        if (r)
                return r;
        for (uint32_t i = 0; i < client->n_pools; i++)
                n_bytes += idle_flush(&client->pools[i]);
        if (ret_freed_bytes)
                *ret_freed_bytes = n_bytes;
        events_tell(&client->events);
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
        r = uplink_call(&client->uplink, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply,
                        &fds, NULL);
        events_tell(&client->events);
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
