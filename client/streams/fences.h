/* SPDX-License-Identifier: Apache-2.0 */
/* Tells when the GPU work that may use freed memory of a heap is over. Each epoch of frees gets one mark in the
 * heap's stream, and one round of the registered streams (streams.h). They are begun only where another stream or
 * process wants blocks. Memory that is freed after its work was waited for needs neither. The caller has the pool's
 * lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/streams/marks.h"
#include "client/streams/streams.h"

struct heap;

struct fences {
        struct marks marks; /* numbered by epoch, from 1 on */
};

void fences_init(struct fences *fences);
void fences_deinit(struct fences *fences, const struct cuda *cuda);

/* Ends the heap's epoch with a mark in its stream and a round, if anything was freed in it. A failure changes
 * nothing: the next epoch then covers these frees, too. */
void fences_record(struct fences *fences, struct heap *heap, struct streams *streams,
                   const struct stream_key *key, void *stream);

/* The same for a stream that the round covers, if it is registered still. The caller does not have the stream. */
void fences_record_round(struct fences *fences, struct heap *heap, struct streams *streams,
                         const struct stream_key *key);

/* Tells the heap which epochs its stream and the rounds have passed. */
void fences_poll(struct fences *fences, struct heap *heap, struct streams *streams,
                 uint64_t context);

/* Work that uses memory freed in the first n_done_epochs was waited for. 0: no epoch; the heap began meanwhile. */
void fences_pass(struct fences *fences, struct heap *heap, uint64_t n_done_epochs);

/* Are marks pending? */
bool fences_wait_for(const struct fences *fences);
