/* When the GPU work that was enqueued before the frees of a heap is over: one event an epoch, in the
 * heap's stream, only where somebody wants blocks to move. Where work is waited for before memory is
 * freed there is nothing to know. The caller has the pool's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/cuda.h"

struct heap;
struct fence;
TAILQ_HEAD(fence_list, fence);

/* Events that are pending in one stream at most: then the last one is recorded anew. */
#define FENCES_MAX 256

struct fences {
        unsigned n_pending;
        struct fence_list pending; /* in order */
        struct fence_list spare;
};

void fences_init(struct fences *fences);
void fences_deinit(struct fences *fences, const struct cuda *cuda);

/* Ends the heap's epoch with an event in its stream, if anything was freed in it. What fails changes
 * nothing: the next one is for all. */
void fences_record(struct fences *fences, struct heap *heap, const struct cuda *cuda,
                   uint64_t context, void *stream);

/* Tells the heap how far its stream has come. */
void fences_poll(struct fences *fences, struct heap *heap, const struct cuda *cuda);

/* All that was freed up to that epoch is over: it was waited for. */
void fences_pass(struct fences *fences, struct heap *heap, uint64_t n_done_epochs);

/* Something is pending. */
bool fences_wait_for(const struct fences *fences);
