#include "client/fences.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/heap.h"
#include "driver/event.h"

struct fence {
        uint64_t epoch;
        struct work_event event;
        TAILQ_ENTRY(fence) link;
};

void fences_init(struct fences *fences)
{
        fences->n_pending = 0;
        TAILQ_INIT(&fences->pending);
        TAILQ_INIT(&fences->spare);
}

static void free_list(struct fence_list *list, const struct cuda *cuda)
{
        struct fence *fence;

        while ((fence = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, fence, link);
                event_free(cuda, &fence->event);
                free(fence);
        }
}

void fences_deinit(struct fences *fences, const struct cuda *cuda)
{
        free_list(&fences->pending, cuda);
        free_list(&fences->spare, cuda);
}

static struct fence *take_one(struct fences *fences)
{
        struct fence *fence = TAILQ_FIRST(&fences->spare);

        if (fences->n_pending == FENCES_MAX) {
                fence = TAILQ_LAST(&fences->pending, fence_list);
                TAILQ_REMOVE(&fences->pending, fence, link);
                fences->n_pending--;
                return fence;
        }
        if (!fence)
                return calloc(1, sizeof(*fence));
        TAILQ_REMOVE(&fences->spare, fence, link);
        return fence;
}

/* What was freed in the epoch that ends; 0: nothing, and it does not end. */
static uint64_t end_epoch(struct heap *heap, uint64_t *ret_epoch)
{
        uint64_t n_bytes;

        lock_take(&heap->lock);
        n_bytes = heap->n_freed_bytes;
        if (n_bytes)
                *ret_epoch = heap_new_epoch(heap);
        lock_drop(&heap->lock);
        return n_bytes;
}

/* It ended without an event: the next one is to be for its frees too. */
static void take_back(struct heap *heap, uint64_t n_bytes)
{
        lock_take(&heap->lock);
        heap->n_freed_bytes += n_bytes;
        lock_drop(&heap->lock);
}

/* The epoch ends before the event is recorded: what is freed meanwhile is the next one's. */
void fences_record(struct fences *fences, struct heap *heap, const struct cuda *cuda,
                   uint64_t context, void *stream)
{
        struct fence *fence;
        uint64_t n_bytes, epoch;

        n_bytes = end_epoch(heap, &epoch);
        if (!n_bytes)
                return;
        fence = take_one(fences);
        if (fence && event_record(cuda, context, stream, &fence->event) == 0) {
                fence->epoch = epoch;
                TAILQ_INSERT_TAIL(&fences->pending, fence, link);
                fences->n_pending++;
                return;
        }
        take_back(heap, n_bytes);
        if (!fence)
                return;
        /* The event may be of a context that has gone. */
        event_free(cuda, &fence->event);
        TAILQ_INSERT_HEAD(&fences->spare, fence, link);
}

void fences_pass(struct fences *fences, struct heap *heap, uint64_t n_done_epochs)
{
        struct fence *fence;

        while ((fence = TAILQ_FIRST(&fences->pending)) && fence->epoch < n_done_epochs) {
                TAILQ_REMOVE(&fences->pending, fence, link);
                fences->n_pending--;
                TAILQ_INSERT_HEAD(&fences->spare, fence, link);
        }
        lock_take(&heap->lock);
        if (n_done_epochs > heap->n_done_epochs)
                heap->n_done_epochs = n_done_epochs;
        lock_drop(&heap->lock);
}

void fences_poll(struct fences *fences, struct heap *heap, const struct cuda *cuda)
{
        uint64_t n_done_epochs = 0;
        const struct fence *fence;

        TAILQ_FOREACH (fence, &fences->pending, link) {
                if (!event_is_over(cuda, &fence->event))
                        break;
                n_done_epochs = fence->epoch + 1;
        }
        if (n_done_epochs)
                fences_pass(fences, heap, n_done_epochs);
}

bool fences_wait_for(const struct fences *fences)
{
        return !TAILQ_EMPTY(&fences->pending);
}
