#include "client/fences.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/heap.h"
#include "driver/event.h"

struct fence {
        uint32_t epoch;
        uint64_t event;
        TAILQ_ENTRY(fence) link;
};

void fences_init(struct fences *fences)
{
        TAILQ_INIT(&fences->pending);
        TAILQ_INIT(&fences->spare);
}

static void free_list(struct fence_list *list, const struct cuda *cuda)
{
        struct fence *fence;

        while ((fence = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, fence, link);
                event_free(cuda, fence->event);
                free(fence);
        }
}

void fences_deinit(struct fences *fences, const struct cuda *cuda)
{
        free_list(&fences->pending, cuda);
        free_list(&fences->spare, cuda);
}

static struct fence *take_spare(struct fences *fences)
{
        struct fence *fence = TAILQ_FIRST(&fences->spare);

        if (!fence)
                return calloc(1, sizeof(*fence));
        TAILQ_REMOVE(&fences->spare, fence, link);
        return fence;
}

static bool has_freed(struct heap *heap, uint32_t *ret_epoch)
{
        bool freed;

        lock_take(&heap->lock);
        freed = heap->n_freed_bytes > 0;
        if (freed)
                *ret_epoch = heap_new_epoch(heap);
        lock_drop(&heap->lock);
        return freed;
}

/* The epoch ends before the event is recorded: what is freed meanwhile is the next one's. */
void fences_record(struct fences *fences, struct heap *heap, const struct cuda *cuda,
                   uint64_t context, void *stream)
{
        struct fence *fence = take_spare(fences);

        if (!fence)
                return;
        if (!has_freed(heap, &fence->epoch)) {
                TAILQ_INSERT_HEAD(&fences->spare, fence, link);
                return;
        }
        if (event_record(cuda, context, stream, &fence->event)) {
                TAILQ_INSERT_HEAD(&fences->spare, fence, link);
                return;
        }
        TAILQ_INSERT_TAIL(&fences->pending, fence, link);
}

void fences_pass(struct fences *fences, struct heap *heap, uint32_t n_done_epochs)
{
        struct fence *fence;

        while ((fence = TAILQ_FIRST(&fences->pending)) && fence->epoch < n_done_epochs) {
                TAILQ_REMOVE(&fences->pending, fence, link);
                TAILQ_INSERT_HEAD(&fences->spare, fence, link);
        }
        lock_take(&heap->lock);
        if (n_done_epochs > heap->n_done_epochs)
                heap->n_done_epochs = n_done_epochs;
        lock_drop(&heap->lock);
}

void fences_poll(struct fences *fences, struct heap *heap, const struct cuda *cuda)
{
        uint32_t n_done_epochs = 0;
        const struct fence *fence;

        TAILQ_FOREACH (fence, &fences->pending, link) {
                if (!event_is_over(cuda, fence->event))
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
