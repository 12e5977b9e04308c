/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/fences.h"

#include "client/heap/heap.h"

void fences_init(struct fences *fences)
{
        marks_init(&fences->marks);
}

void fences_deinit(struct fences *fences, const struct cuda *cuda)
{
        marks_deinit(&fences->marks, cuda);
}

/* Ends the epoch. Returns how much was freed in it; 0: nothing was, and the epoch goes on. */
static uint64_t end_epoch(struct heap *heap, uint64_t *ret_epoch)
{
        uint64_t n_bytes;

        spin_lock(&heap->lock);
        n_bytes = heap->n_freed_bytes;
        if (n_bytes)
                *ret_epoch = heap_new_epoch(heap);
        spin_unlock(&heap->lock);
        return n_bytes;
}

/* The epoch ended without a mark: the next mark must cover its frees, too. */
static void take_back(struct heap *heap, uint64_t n_bytes)
{
        spin_lock(&heap->lock);
        heap->n_freed_bytes += n_bytes;
        spin_unlock(&heap->lock);
}

/* The epoch ends before the mark is recorded, so that frees made meanwhile belong to the next one. */
static void record(struct fences *fences, struct heap *heap, struct streams *streams,
                   struct mark_place *place)
{
        uint64_t n_bytes = end_epoch(heap, &place->number);

        if (!n_bytes)
                return;
        place->round = streams_begin_round(streams, place->context);
        if (marks_add(&fences->marks, streams->cuda, place))
                take_back(heap, n_bytes);
}

void fences_record(struct fences *fences, struct heap *heap, struct streams *streams,
                   const struct stream_key *key, void *stream)
{
        struct mark_place place = {.context = key->context,
                                   .stream = stream,
                                   .gate = streams_gate_of(streams, key, stream),
                                   .is_context_wide = streams->way == FENCE_CONTEXT};

        record(fences, heap, streams, &place);
}

/* Another thread may end the registration, use the stream and free in it before the round begins, which does not cover
 * that work then. */
void fences_record_round(struct fences *fences, struct heap *heap, struct streams *streams,
                         const struct stream_key *key)
{
        struct mark_place place = {.context = key->context, .is_round_only = true};
        uint64_t n_bytes = end_epoch(heap, &place.number);

        if (!n_bytes)
                return;
        place.round = streams_begin_round_with(streams, key);
        if (!place.round || marks_add(&fences->marks, streams->cuda, &place))
                take_back(heap, n_bytes);
}

static void pass(struct heap *heap, uint64_t n_done_epochs)
{
        spin_lock(&heap->lock);
        if (n_done_epochs > heap->n_done_epochs)
                heap->n_done_epochs = n_done_epochs;
        spin_unlock(&heap->lock);
}

void fences_pass(struct fences *fences, struct heap *heap, uint64_t n_done_epochs)
{
        if (!n_done_epochs)
                return;
        marks_pass(&fences->marks, n_done_epochs - 1);
        pass(heap, n_done_epochs);
}

void fences_poll(struct fences *fences, struct heap *heap, struct streams *streams,
                 uint64_t context)
{
        uint64_t epoch;

        if (!fences_wait_for(fences))
                return;
        epoch = marks_poll(&fences->marks, streams->cuda, streams_done_rounds(streams, context));
        if (epoch)
                pass(heap, epoch + 1);
}

bool fences_wait_for(const struct fences *fences)
{
        return marks_first(&fences->marks) != 0;
}
