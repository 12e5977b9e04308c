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
#include "client/fork.h"
#include "client/nearest.h"
#include "client/refusal.h"
#include "client/shared.h"

/* The kernel's own bound. */
#define ERRNO_MAX 4095

struct gpumem_client {
        uint64_t number;
        struct fork_guard fork_guard;
        struct events events;
        struct uplink uplink;
        struct cuda cuda;
        bool has_cuda;
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
                                 .fraction = client->fraction};
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
                        struct stream_key *ret_key, int32_t *ret_place)
{
        int ordinal, r;

        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = stream_identify(&client->cuda, request->stream, ret_key, &ordinal);
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

static int alloc_from(struct pool *pool, const struct stream_key *key,
                      const struct gpumem_request *request, void **ret_pointer)
{
        if (request->flags & GPUMEM_SHAREABLE)
                return shared_alloc(pool, key, request->n_bytes, request->wait_ms, ret_pointer);
        return pool_alloc(pool, key, request->n_bytes, request->wait_ms, ret_pointer);
}

static int alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        int32_t place = request->place;
        struct stream_key key;
        struct pool *pool, *again;
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
        pool = client_pool_at(client, request->kind, place);
        if (!pool)
                uplink_renew(&client->uplink);
        else
                r = alloc_from(pool, &key, request, ret_pointer);
        if (pool && r != GPUMEM_E_NO_POOL)
                return r;
        /* The next daemon may have been met by now, and have there what the last one had not. */
        again = client_pool_at(client, request->kind, place);
        return again == pool ? GPUMEM_E_NO_POOL : alloc_from(again, &key, request, ret_pointer);
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
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (!r)
                r = take_struct(request, request->struct_size, &ours, sizeof(ours));
        if (r)
                return r;
        r = alloc(client, &ours, ret_pointer);
        if (refusal_is_one(r))
                note_refusal(client, r, &ours);
        events_tell(&client->events);
        return r;
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
        if (r)
                return r;
        r = find_allocation(client, pointer, &pool, &key);
        if (!r)
                r = free_in_order(client, pool, &key, pointer, stream);
        else
                r = client_free_shared(client, pointer, stream);
        events_tell(&client->events);
        return r;
}

static int free_unordered_after_all(struct gpumem_client *client, struct pool *pool,
                                    const struct stream_key *key, void *pointer)
{
        int r = client->has_cuda ? stream_synchronize_contexts(&client->cuda, key->context) : 0;

        return r ? r : free_unordered(pool, pointer);
}

int gpumem_free_sync(struct gpumem_client *client, void *pointer)
{
        struct stream_key key;
        struct pool *pool;
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        r = find_allocation(client, pointer, &pool, &key);
        if (!r)
                r = free_unordered_after_all(client, pool, &key, pointer);
        else
                r = client_free_shared_sync(client, pointer);
        events_tell(&client->events);
        return r;
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
