/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/debug_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/pool/pool.h"
#include "client/streams/stream_uses.h"
#include "driver/bytes.h"

/* Fills device memory in the stream's order, pinned memory at once. */
static int fill(const struct debug_filler *filler, enum gpumem_kind kind, void *at,
                unsigned char byte, uint64_t n_bytes, void *stream)
{
        if (kind == GPUMEM_DEVICE)
                return bytes_fill(filler->cuda, stream, (uint64_t)(uintptr_t)at, byte, n_bytes);
        memset(at, byte, n_bytes);
        return 0;
}

/* The block is new, so no stream orders the fill. The fill must be over at the end of the call: other processes may
 * write there then. */
int debug_memory_fill_own_block(const struct debug_filler *filler,
                                const struct gpumem_request *asked, void *pointer)
{
        const struct cuda *cuda = filler->cuda;
        struct stream_key key;
        void *stream;
        int ordinal, r, r_end;

        if (asked->kind == GPUMEM_PINNED)
                return fill(filler, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes, NULL);
        r = stream_identify(cuda, asked->stream, &key, &ordinal);
        if (!r)
                r = bytes_begin_stream(cuda, key.context, &stream);
        if (r)
                return r;
        r = fill(filler, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes, stream);
        r_end = bytes_end_stream(cuda, stream);
        return r ? r : r_end;
}

/* Records an event for frees in other streams; if that fails, waits for the fill. */
static int note_filled(const struct debug_filler *filler, const struct gpumem_request *asked,
                       struct debug_memory *memory)
{
        const struct cuda *cuda = filler->cuda;
        int ordinal, r;

        if (asked->kind == GPUMEM_PINNED)
                return 0;
        r = stream_identify(cuda, asked->stream, &memory->key, &ordinal);
        if (!r)
                r = event_record(cuda, memory->key.context, asked->stream, &memory->filled);
        return r ? stream_synchronize(cuda, asked->stream) : 0;
}

/* May other streams use freed memory until the program makes the memory's stream wait for them? */
static bool is_forgiven(const struct debug_filler *filler)
{
        streams_poll(filler->streams);
        return streams_forgive(filler->streams);
}

int debug_memory_begin(const struct debug_filler *filler, const struct gpumem_request *asked,
                       uint64_t n_more_bytes, struct debug_memory *memory)
{
        char *pointer = memory->pointer;
        int r = 0;

        if (asked->kind == GPUMEM_DEVICE && is_forgiven(filler))
                return 0;
        if (filler->is_filling)
                r = fill(filler, asked->kind, pointer, DEBUG_ALLOCATED, asked->n_bytes,
                         asked->stream);
        if (!r && n_more_bytes)
                r = fill(filler, asked->kind, pointer + asked->n_bytes, DEBUG_GUARD_BYTE,
                         DEBUG_GUARD_BYTES, asked->stream);
        memory->is_guarded = !r && n_more_bytes;
        if (!r)
                r = note_filled(filler, asked, memory);
        return r;
}

static COLD _Noreturn void tell_damage(const struct debug_memory *memory, const char *freed,
                                       unsigned first, unsigned n)
{
        log_error(
                "GPUMEM_DEBUG: guard: the program has written behind the end of its allocation: %s "
                "memory at %p, of %" PRIu64 " bytes, freed %s. The first damaged byte "
                "is at offset %" PRIu64 "; %u of the %u guard bytes are damaged. "
                "Correct the copy, kernel or loop that writes there, or allocate more "
                "bytes. The library aborts the program now",
                memory->kind == GPUMEM_DEVICE ? "device" : "pinned", memory->pointer,
                memory->n_bytes, freed, memory->n_bytes + first, n, DEBUG_GUARD_BYTES);
        abort();
}

static int check_guard(const struct debug_filler *filler, const struct debug_memory *memory,
                       const char *freed, void *stream)
{
        const char *guard = (const char *)memory->pointer + memory->n_bytes;
        unsigned first = DEBUG_GUARD_BYTES, n = 0;
        unsigned char bytes[DEBUG_GUARD_BYTES];
        int r = 0;

        if (memory->kind == GPUMEM_DEVICE)
                r = bytes_read(filler->cuda, stream, (uint64_t)(uintptr_t)guard, bytes,
                               sizeof(bytes));
        else
                memcpy(bytes, guard, sizeof(bytes));
        if (r)
                return r;
        for (unsigned i = 0; i < sizeof(bytes); i++) {
                if (bytes[i] == DEBUG_GUARD_BYTE)
                        continue;
                first = first < i ? first : i;
                n++;
        }
        if (n)
                tell_damage(memory, freed, first, n);
        return 0;
}

/* False: work in other streams may use the memory after its free, so its bytes must stay. */
static bool may_fill_at_free(const struct debug_filler *filler, const void *pointer)
{
        return !is_forgiven(filler) && !stream_uses_has_recorded(filler->uses, pointer);
}

static int check_and_fill(const struct debug_filler *filler, const struct debug_memory *memory,
                          const char *freed, void *stream)
{
        int r = memory->is_guarded ? check_guard(filler, memory, freed, stream) : 0;

        if (r || !(filler->is_filling) || !may_fill_at_free(filler, memory->pointer))
                return r;
        return fill(filler, memory->kind, memory->pointer, DEBUG_FREED, memory->n_bytes, stream);
}

/* Waits as the free itself does, before the CPU reads the guard. */
static int wait_for_pinned(const struct debug_filler *filler, const struct stream_heap *heap,
                           const struct stream_key *order, void *stream)
{
        const struct cuda *cuda = filler->cuda;
        struct stream_key key;
        int ordinal, r;

        if (!cuda || (!order->context && heap->pool->memory.pinned != MEMORY_VMM))
                return 0;
        r = stream_identify(cuda, stream, &key, &ordinal);
        if (!r)
                return stream_synchronize(cuda, stream);
        if (r == GPUMEM_E_NO_CONTEXT && !order->context)
                return 0;
        if (r == GPUMEM_E_NO_CONTEXT && order->id == POOL_ANY_STREAM)
                return stream_synchronize_context(cuda, order->context);
        return r;
}

/* All work is over by now. Device memory is reached by a stream of its own context. */
static int check_and_fill_apart(const struct debug_filler *filler,
                                const struct debug_memory *memory, const char *freed,
                                uint64_t context)
{
        const struct cuda *cuda = filler->cuda;
        void *stream = NULL;
        int r, r_end;

        if (memory->kind == GPUMEM_PINNED)
                return check_and_fill(filler, memory, freed, NULL);
        r = bytes_begin_stream(cuda, context, &stream);
        if (r)
                return r;
        r = check_and_fill(filler, memory, freed, stream);
        r_end = bytes_end_stream(cuda, stream);
        return r ? r : r_end;
}

static bool is_same(const struct stream_key *one, const struct stream_key *other)
{
        return one->context == other->context && one->id == other->id;
}

/* The fill of the allocation must be over by the end of the free, which waits for its own stream only. A stream of
 * another context may be unable to reach the memory. */
static int check_and_fill_device(const struct debug_filler *filler,
                                 const struct debug_memory *memory, const char *freed,
                                 uint64_t context, void *stream)
{
        const struct cuda *cuda = filler->cuda;
        struct stream_key key;
        int ordinal, r = stream_identify(cuda, stream, &key, &ordinal), r_filled;

        r_filled = r || !is_same(&key, &memory->key) || !may_fill_at_free(filler, memory->pointer)
                           ? event_wait(cuda, &memory->filled)
                           : 0;
        if (r || r_filled)
                return r ? r : r_filled;
        if (key.context == context)
                return check_and_fill(filler, memory, freed, stream);
        r = stream_synchronize(cuda, stream);
        return r ? r : check_and_fill_apart(filler, memory, freed, context);
}

static int before_free(const struct debug_filler *filler, const struct debug_memory *memory,
                       const struct stream_heap *heap, void *stream)
{
        struct stream_key order = pool_order_of(heap, memory->pointer);
        char freed[64];
        int r;

        (void)snprintf(freed, sizeof(freed), "in stream %p", stream);
        if (memory->kind == GPUMEM_DEVICE)
                return check_and_fill_device(filler, memory, freed, order.context, stream);
        r = wait_for_pinned(filler, heap, &order, stream);
        return r ? r : check_and_fill(filler, memory, freed, NULL);
}

static int before_free_sync(const struct debug_filler *filler, const struct debug_memory *memory,
                            const struct stream_heap *heap)
{
        struct stream_key order = pool_order_of(heap, memory->pointer);
        int r = 0;

        if (filler->cuda)
                r = stream_synchronize_contexts(filler->cuda, order.context);
        return r ? r : check_and_fill_apart(filler, memory, "by gpumem_free_sync", order.context);
}

int debug_memory_end(const struct debug_filler *filler, const struct debug_memory *memory,
                     const struct stream_heap *heap, enum debug_order order, void *stream)
{
        return order == DEBUG_IN_STREAM ? before_free(filler, memory, heap, stream)
                                        : before_free_sync(filler, memory, heap);
}
