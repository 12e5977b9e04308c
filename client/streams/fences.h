/* SPDX-License-Identifier: Apache-2.0 */
/* When the GPU work is over that may use what was freed in a heap: one mark an epoch of frees, in the heap's stream,
 * and one round of the registered streams, see streams.h. They are begun only where another stream or process wants
 * blocks. Where work is waited for before memory is freed there is nothing to know. The caller has the pool's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/streams/marks.h"
#include "client/streams/streams.h"

struct heap;

struct fences {
        struct marks marks; /* their numbers are those of epochs, from 1 on */
};

void fences_init(struct fences *fences);
void fences_deinit(struct fences *fences, const struct cuda *cuda);

/* Ends the heap's epoch with a mark in its stream and a round, if anything was freed in it. What fails changes
 * nothing: the next one is for all. */
void fences_record(struct fences *fences, struct heap *heap, struct streams *streams,
                   uint64_t context, void *stream);

/* Tells the heap how far its stream and the rounds have come. */
void fences_poll(struct fences *fences, struct heap *heap, struct streams *streams,
                 uint64_t context);

/* All that was freed in so many epochs is over: it was waited for. 0: none, of a heap that began meanwhile. */
void fences_pass(struct fences *fences, struct heap *heap, uint64_t n_done_epochs);

/* Something is pending. */
bool fences_wait_for(const struct fences *fences);
