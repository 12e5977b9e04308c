/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_alloc: finds the heap of the stream, and waits where waiting is needed. */
#include <stdio.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/api/refusal.h"
#include "client/api/wrong_request.h"
#include "client/blocks/ipc_mapping.h"
#include "client/connection/retry.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/before_wait.h"
#include "client/runtime/last_error.h"
#include "client/watch/trace.h"
#include "driver/context.h"

/* The driver has one result for this, and the reason is not of the library's making. */
static int explain_locked(const struct cuda *cuda, void *stream, int r)
{
        if (r == -EIO && stream_is_locked(cuda, stream))
                last_error_set(r,
                               "the default stream cannot be used while a blocking stream of its "
                               "context captures (cudaErrorStreamCaptureImplicit); allocate for "
                               "another stream, or capture in one that is made with "
                               "cudaStreamNonBlocking");
        return r;
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
        else if (r == GPUMEM_E_UNSUPPORTED)
                r = graph_memory_place(&client->graph_memory, request, ret_asked, &ordinal);
        if (r)
                return explain_locked(&client->cuda, request->stream, r);
        if (!(request->flags & SHARED_ALLOC_FLAGS) && !ret_asked->key.capture)
                graph_memory_divert(&client->graph_memory, ret_asked, &ret_asked->key);
        if (request->place != GPUMEM_NEAREST && request->place != ordinal)
                return client_pool_at(client, GPUMEM_DEVICE, request->place)
                               ? wrong_request_stream(ordinal, request->place)
                               : wrong_request_place(client, GPUMEM_DEVICE, request->place);
        *ret_place = ordinal;
        return 0;
}

/* Pinned memory is ordered by streams if there are any, and belongs to the graph if the stream captures. */
static int place_pinned(struct gpumem_client *client, const struct gpumem_request *request,
                        struct pool_request *ret_asked)
{
        int ordinal, r = GPUMEM_E_NO_CONTEXT;

        if (client->has_cuda)
                r = stream_identify_host(&client->cuda, request->stream, &ret_asked->key,
                                         &ret_asked->context_id);
        else if (request->stream)
                return GPUMEM_E_NO_DRIVER;
        if (!r)
                return stream_look(&client->cuda, request->stream, &ret_asked->mark);
        if (r == GPUMEM_E_UNSUPPORTED)
                return graph_memory_place(&client->graph_memory, request, ret_asked, &ordinal);
        return r == GPUMEM_E_NO_CONTEXT ? 0 : explain_locked(&client->cuda, request->stream, r);
}

/* A default stream's mark says its context's handle, which the next context may have: see ipc_mapping.h. */
static bool is_told_by_mark(const struct pool *pool, const struct gpumem_request *request)
{
        return request->kind == GPUMEM_DEVICE &&
               (!pool->memory.is_ipc || stream_is_created(request->stream));
}

static int alloc_from(struct gpumem_client *client, struct pool *pool,
                      const struct pool_request *asked, const struct gpumem_request *request,
                      void **ret_pointer)
{
        struct stream_heap *heap;
        void *pointer;
        int r;

        last_error_set_pool(__atomic_load_n(&pool->row.id, __ATOMIC_RELAXED));
        r = pool_check_size(pool, request->n_bytes);
        if (r)
                return r;
        if (request->flags & SHARED_ALLOC_FLAGS)
                return shared_alloc_new(pool, &asked->key, request, ret_pointer);
        heap = pool_find_heap(pool, asked);
        r = heap ? pool_hit(heap, &asked->mark, request->n_bytes, &pointer) : GPUMEM_E_REFUSED;
        if (r == GPUMEM_E_REFUSED)
                r = pool_alloc(pool, asked, &heap, &pointer);
        if (!r && is_told_by_mark(pool, request))
                recent_heaps_note(&client->recent, &asked->mark, heap);
        else if (!r && request->kind == GPUMEM_PINNED && asked->key.context)
                r = pool_renew_registration(pool, asked, heap, pointer);
        if (!r)
                *ret_pointer = pointer;
        return r;
}

struct opened_alloc {
        struct gpumem_client *client;
        struct pool *pool;
        const struct pool_request *asked;
        const struct gpumem_request *request;
        void **ret_pointer;
        bool was_tried;
        int result; /* then */
};

static int alloc_opened(const struct cuda *cuda, void *argument)
{
        struct opened_alloc *alloc = argument;
        struct pool_request asked = *alloc->asked;

        (void)cuda;
        asked.context_id = ipc_mapping_context_id(alloc->pool, asked.key.context);
        alloc->was_tried = true;
        alloc->result = alloc_from(alloc->client, alloc->pool, &asked, alloc->request,
                                   alloc->ret_pointer);
        return alloc->result;
}

/* Blocks of CUDA IPC handles are opened in the stream's context, which need not be current. If the one that was current has ended
 * meanwhile, the allocation has been made all the same. */
static int alloc_in(struct gpumem_client *client, struct pool *pool,
                    const struct pool_request *asked, const struct gpumem_request *request,
                    void **ret_pointer)
{
        struct opened_alloc opened = {client, pool, asked, request, ret_pointer, false, 0};
        int r;

        if (!pool->memory.is_ipc)
                return alloc_from(client, pool, asked, request, ret_pointer);
        r = context_run(&client->cuda, asked->key.context, alloc_opened, &opened);
        return opened.was_tried ? opened.result : r;
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

        if (request->kind == GPUMEM_DEVICE)
                r = place_device(client, request, &asked, &place);
        else if (request->kind == GPUMEM_PINNED)
                r = place_pinned(client, request, &asked);
        else
                r = wrong_request_kind(request->kind);
        if (r)
                return r;
        pool = client_pool_at(client, request->kind, place);
        if (!pool)
                reconnect_renew(&client->reconnector);
        else
                r = alloc_in(client, pool, &asked, request, ret_pointer);
        if (pool && r != GPUMEM_E_NO_POOL)
                return r;
        /* The client may have connected to the next daemon by now, and that one may have the pool. */
        again = client_pool_at(client, request->kind, place);
        return again == pool ? wrong_request_place(client, request->kind, place)
                             : alloc_in(client, again, &asked, request, ret_pointer);
}

/* A capture of a default stream is left to the slow path: its marks in two contexts may be equal. */
static int look(struct gpumem_client *client, void *stream, struct stream_mark *ret_mark)
{
        struct capture capture;
        int r = stream_look(&client->cuda, stream, ret_mark);

        if (r == GPUMEM_E_UNSUPPORTED && stream_is_created(stream))
                r = capture_look(&client->cuda, stream, ret_mark, &capture);
        return r;
}

/* The value of `place`, other than GPUMEM_NEAREST, with which that heap may serve the request. */
static inline int32_t own_place(const struct gpumem_request *request,
                                const struct stream_heap *heap)
{
        return request->flags & GPUMEM_AT_PLACE ? heap->pool->memory.ordinal : 0;
}

/* The fast path of most requests: a hole of the stream's own heap holds them. After any other result, the slow path
 * finds out again. */
static ALWAYS_INLINE int alloc_hit(struct gpumem_client *client,
                                   const struct gpumem_request *request, void **ret_pointer)
{
        struct stream_heap *guess, *heap;
        struct stream_mark mark;
        int r;

        if (request->kind != GPUMEM_DEVICE || request->flags & ~GPUMEM_AT_PLACE ||
            !client->has_cuda)
                return GPUMEM_E_REFUSED;
        guess = recent_heaps_prefetch(&client->recent, request->n_bytes);
        r = look(client, request->stream, &mark);
        if (r)
                return r;
        heap = recent_heaps_find(&client->recent, &mark);
        recent_heaps_check(&client->recent, guess, heap);
        if (!heap ||
            (request->place != own_place(request, heap) && request->place != GPUMEM_NEAREST))
                return GPUMEM_E_REFUSED;
        return pool_hit(heap, &mark, request->n_bytes, ret_pointer);
}

/* Refuses a request whose struct cannot be read. */
static int refuse_struct(struct gpumem_client *client, const struct gpumem_request *request, int r)
{
        const struct gpumem_request none = {.kind = 0};
        char text[GPUMEM_TEXT_BYTES];

        if (r == -E2BIG)
                (void)snprintf(text, sizeof(text),
                               "struct_size is %zu, and what is beyond %zu bytes is not 0: this "
                               "library does not know those fields",
                               request->struct_size, sizeof(none));
        else
                (void)snprintf(text, sizeof(text),
                               "struct_size is %zu; it must be sizeof(struct gpumem_request), here "
                               "%zu",
                               request->struct_size, sizeof(none));
        last_error_set(r, text);
        last_error_keep(client->number, r, &none);
        return r;
}

static void note_refusal(struct gpumem_client *client, int code,
                         const struct gpumem_request *request)
{
        struct gpumem_event event = {.kind = GPUMEM_EVENT_REFUSED,
                                     .result = code,
                                     .memory = request->kind,
                                     .place = request->place,
                                     .n_bytes = request->n_bytes};

        if (events_note_unheard(&client->events, GPUMEM_EVENT_REFUSED))
                return;
        (void)snprintf(event.text, sizeof(event.text), "%s", last_error_text());
        events_note(&client->events, &event);
}

/* Could memory help that was freed, but cannot be used again yet? */
static bool lacks_memory(int r)
{
        return r == GPUMEM_E_REFUSED || r == GPUMEM_E_LIMIT || r == GPUMEM_E_DEVICE_FULL ||
               r == GPUMEM_E_TIMED_OUT || r == GPUMEM_E_TOO_MANY;
}

/* Before the request waits for other processes, completes deferred frees, and waits for work of this process that
 * still keeps memory. */
static int alloc_before_deferred(struct gpumem_client *client, const struct gpumem_request *request,
                                 void **ret_pointer)
{
        struct gpumem_request now = *request;
        int r = GPUMEM_E_REFUSED;

        if (capture_frees_none(&client->capture_frees) && deferred_frees_none(&client->deferred) &&
            graph_memory_are_all_settled(&client->graph_memory))
                return r;
        now.wait_ms = 0;
        r = alloc(client, &now, ret_pointer);
        if (lacks_memory(r))
                client_wait_for_freed(client);
        return r;
}

static int alloc_here(struct gpumem_client *client, struct gpumem_request *request,
                      void **ret_pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct retry retry = retry_begin(request->wait_ms);
        int r;

        if (request->stream)
                client_free_captured(client, request->stream);
        client_end_deferred(client, false);
        graph_memory_end_gone(&client->graph_memory);
        r = alloc_before_deferred(client, request, ret_pointer);
        if (!r)
                return 0;
        do
                r = alloc(client, request, ret_pointer);
        while (retry_goes_on(&retry, &client->reconnector, r, &request->wait_ms));
        return r;
}

/* No context is made on a device that gpumemd does not serve. */
static int check_place(struct gpumem_client *client, const struct gpumem_request *request)
{
        if (request->kind != GPUMEM_DEVICE || request->place == GPUMEM_NEAREST ||
            client_pool_at(client, GPUMEM_DEVICE, request->place))
                return 0;
        reconnect_renew(&client->reconnector);
        return client_pool_at(client, GPUMEM_DEVICE, request->place)
                       ? 0
                       : wrong_request_place(client, GPUMEM_DEVICE, request->place);
}

struct waiting_alloc {
        struct gpumem_client *client;
        struct gpumem_request *request;
        void **ret_pointer;
};

static int alloc_in_primary(const struct cuda *cuda, void *argument)
{
        struct waiting_alloc *alloc = argument;

        (void)cuda;
        return alloc_here(alloc->client, alloc->request, alloc->ret_pointer);
}

static int alloc_until_deadline(struct gpumem_client *client, struct gpumem_request *request,
                                void **ret_pointer)
{
        struct waiting_alloc waiting = {client, request, ret_pointer};
        int r;

        before_wait_begin();
        if (!(request->flags & GPUMEM_PRIMARY))
                return alloc_here(client, request, ret_pointer);
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = check_place(client, request);
        if (r)
                return r;
        return primary_contexts_run(&client->primaries, &client->cuda,
                                    request->kind == GPUMEM_DEVICE ? request->place
                                                                   : GPUMEM_NEAREST,
                                    alloc_in_primary, &waiting);
}

/* Reads the caller's request, of any version. `place` is GPUMEM_NEAREST unless the caller sets GPUMEM_AT_PLACE. */
static int take_request(struct gpumem_client *client, const struct gpumem_request *theirs,
                        struct gpumem_request *ret_ours)
{
        int r = take_struct(theirs, theirs->struct_size, ret_ours, sizeof(*ret_ours));

        if (r)
                return refuse_struct(client, theirs, r);
        last_error_clear();
        r = wrong_request_check(ret_ours);
        if (r)
                last_error_keep(client->number, r, ret_ours);
        else if (!(ret_ours->flags & GPUMEM_AT_PLACE))
                ret_ours->place = GPUMEM_NEAREST;
        return r;
}

/* The stream is alive now, so earlier frees in it can be recorded. */
static COLD int settle_in(struct gpumem_client *client, const struct gpumem_request *request,
                          const void *pointer)
{
        client_record_frees(client, pointer, request->stream);
        client_do_after_call(client);
        return 0;
}

/* Keeps and reports the result of a request. */
static int conclude(struct gpumem_client *client, int r, const struct gpumem_request *asked)
{
        if (r)
                refusal_keep(client, r, asked);
        if (last_error_is_refusal(r))
                note_refusal(client, r, asked);
        client_settle(client);
        return r;
}

static NOINLINE int alloc_slow(struct gpumem_client *client, const struct gpumem_request *request,
                               void **ret_pointer)
{
        struct gpumem_request ours;
        int r = take_request(client, request, &ours);

        if (r)
                return r;
        r = alloc_until_deadline(client, &ours, ret_pointer);
        if (!r && after_call_is_any(&client->after_call))
                (void)settle_in(client, &ours, *ret_pointer);
        return conclude(client, r, &ours);
}

/* gpumem_alloc while calls are recorded, debugged or counted. */
static COLD int alloc_watched(struct gpumem_client *client, const struct gpumem_request *request,
                              void **ret_pointer)
{
        struct gpumem_request asked, ours;
        uint64_t n_more_bytes;
        int r = take_request(client, request, &asked);

        if (r)
                return r;
        ours = asked;
        n_more_bytes = debug_n_more_bytes(&client->debug, &asked);
        ours.n_bytes += n_more_bytes;
        r = alloc_hit(client, &ours, ret_pointer);
        if (r)
                r = alloc_until_deadline(client, &ours, ret_pointer);
        if (!r && debug_is_on(&client->debug))
                debug_alloc(&client->debug, &asked, n_more_bytes, *ret_pointer);
        if (!r && tags_are_on())
                tags_alloc(&client->tags, *ret_pointer, asked.n_bytes);
        if (!r && trace_is_on())
                trace_alloc(client, client_cuda(client), &asked, *ret_pointer);
        return conclude(client, r, &asked);
}

FLAT int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                      void **ret_pointer)
{
        int r;

        r = client_enter(&client);
        if (r)
                return r;
        if (switches_any())
                return alloc_watched(client, request, ret_pointer);
        if (__builtin_expect(request->struct_size != sizeof(*request) ||
                                     alloc_hit(client, request, ret_pointer),
                             0))
                return alloc_slow(client, request, ret_pointer);
        if (__builtin_expect(after_call_is_any(&client->after_call), 0))
                return settle_in(client, request, *ret_pointer);
        return 0;
}

int gpumem_malloc(uint64_t n_bytes, void *stream, void **ret_pointer)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .stream = stream,
                                               .n_bytes = n_bytes};

        return gpumem_alloc(NULL, &request, ret_pointer);
}

int gpumem_malloc_pinned(uint64_t n_bytes, void **ret_pointer)
{
        const struct gpumem_request request = {
                .struct_size = sizeof(request), .kind = GPUMEM_PINNED, .n_bytes = n_bytes};

        return gpumem_alloc(NULL, &request, ret_pointer);
}
