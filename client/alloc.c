/* gpumem_alloc: streams are told apart, and what must be waited for is waited for. */
#include <stdio.h>

#include "base/err.h"
#include "client/client.h"
#include "client/patience.h"
#include "client/record.h"
#include "client/refusal.h"
#include "client/shared.h"

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
                r = captures_place(client, request, ret_asked, &ordinal);
        if (r)
                return r;
        if (!request->flags && !ret_asked->key.capture)
                captures_divert(&client->captures, ret_asked, &ret_asked->key);
        if (request->place != GPUMEM_NEAREST && request->place != ordinal)
                return client_pool_at(client, GPUMEM_DEVICE, request->place) ? GPUMEM_E_WRONG_STREAM
                                                                             : GPUMEM_E_NO_POOL;
        *ret_place = ordinal;
        return 0;
}

/* Pinned memory is ordered by streams where there are any, and is a graph's where one captures. */
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
        if (r == GPUMEM_E_UNSUPPORTED)
                return captures_place(client, request, ret_asked, &ordinal);
        return r == GPUMEM_E_NO_CONTEXT ? 0 : r;
}

static _Atomic(struct stream_heap *) *recent(struct gpumem_client *client,
                                             const struct stream_mark *mark)
{
        return &client->recent[(mark->id ^ mark->scope >> 8) % RECENT_HEAPS];
}

void client_forget_recent(struct gpumem_client *client, const struct stream_mark *mark)
{
        atomic_store(recent(client, mark), NULL);
}

static int alloc_from(struct gpumem_client *client, struct pool *pool,
                      const struct pool_request *asked, const struct gpumem_request *request,
                      void **ret_pointer)
{
        struct stream_heap *heap;
        int r = pool_check_size(pool, request->n_bytes);

        if (r)
                return r;
        if (request->flags & GPUMEM_SHAREABLE)
                return shared_alloc(pool, &asked->key, request->n_bytes, request->wait_ms,
                                    ret_pointer);
        heap = pool_find_heap(pool, asked);
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
        if (request->flags & ~GPUMEM_SHAREABLE) {
                refusal_hear(GPUMEM_E_UNSUPPORTED, "flags: allowed are 0, GPUMEM_SHAREABLE");
                return GPUMEM_E_UNSUPPORTED;
        }
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

/* Of a default stream the marks of two contexts may be the same. */
static int look(struct gpumem_client *client, void *stream, struct stream_mark *ret_mark)
{
        struct capture capture;
        int r = stream_look(&client->cuda, stream, ret_mark);

        if (r == GPUMEM_E_UNSUPPORTED && stream_is_created(stream))
                r = capture_look(&client->cuda, stream, ret_mark, &capture);
        return r;
}

/* Most requests end here: a hole of the stream's own heap holds them. Whatever else comes of it, the
 * longer way finds out anew. */
static FLAT int alloc_hit(struct gpumem_client *client, const struct gpumem_request *request,
                          void **ret_pointer)
{
        struct stream_heap *heap;
        struct stream_mark mark;
        int r;

        if (request->kind != GPUMEM_DEVICE || request->flags || !client->has_cuda)
                return GPUMEM_E_REFUSED;
        r = look(client, request->stream, &mark);
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

/* What is parked is freed, and what is kept for work that nobody has waited for is looked at, rather than
 * that others are waited for. */
static int alloc_before_parked(struct gpumem_client *client, const struct gpumem_request *request,
                               void **ret_pointer)
{
        struct gpumem_request now = *request;
        int r = GPUMEM_E_REFUSED;

        if (parked_are_none(&client->parked) && uses_are_none_parked(&client->uses) &&
            captures_are_all_settled(&client->captures))
                return r;
        now.wait_ms = 0;
        r = alloc(client, &now, ret_pointer);
        if (r) {
                (void)parked_wait(client);
                client_unpark(client, true);
                captures_wait(client);
                captures_look(client);
        }
        return r;
}

static int alloc_patiently(struct gpumem_client *client, struct gpumem_request *request,
                           void **ret_pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct patience patience = patience_begin(request->wait_ms);
        int r;

        if (request->stream)
                parked_look(client, request->stream);
        client_unpark(client, false);
        captures_look(client);
        r = alloc_before_parked(client, request, ret_pointer);
        if (!r)
                return 0;
        do
                r = alloc(client, request, ret_pointer);
        while (patience_goes_on(&patience, &client->uplink, r, &request->wait_ms));
        return r;
}

static NOINLINE int alloc_miss(struct gpumem_client *client, const struct gpumem_request *request,
                               void **ret_pointer)
{
        struct gpumem_request ours;
        int r;

        r = take_struct(request, request->struct_size, &ours, sizeof(ours));
        if (r)
                return r;
        r = alloc_patiently(client, &ours, ret_pointer);
        if (record_is_on() && !r)
                record_alloc(client, &ours, *ret_pointer);
        if (refusal_is_one(r))
                note_refusal(client, r, &ours);
        else if (r == GPUMEM_E_UNSUPPORTED)
                refusal_keep(client->number, r, &ours);
        client_settle(client);
        return r;
}

int gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                 void **ret_pointer)
{
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (request->struct_size != sizeof(*request) || alloc_hit(client, request, ret_pointer))
                return alloc_miss(client, request, ret_pointer);
        if (record_is_on())
                record_alloc(client, request, *ret_pointer);
        client_settle(client);
        return 0;
}
