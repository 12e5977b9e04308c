/* SPDX-License-Identifier: Apache-2.0 */
/* Live allocations that further streams use, as gpumem_record_use told, and which streams these are. Their frees are
 * those of deferred_frees.h. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/streams/stream_use.h"

struct stream_uses {
        pthread_mutex_t lock;        /* not held while work is waited for */
        struct stream_use *recorded; /* by pointer */
};

void stream_uses_init(struct stream_uses *uses);

/* Forgets everything; `cuda` may be NULL if nothing was ever recorded. */
void stream_uses_deinit(struct stream_uses *uses, const struct cuda *cuda);

/* Records that `stream` uses the allocation at `pointer`, too. `n_uses` counts the allocations of its block that are
 * recorded here or in deferred_frees.h, so that a free looks there only if there are any. -ENOMEM. */
int stream_uses_add(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
                    void *stream, const struct stream_key *key);

/* Is this a live allocation with a recorded stream? */
bool stream_uses_has_recorded(struct stream_uses *uses, const void *pointer);

/* Waits for the work of all recorded streams of the allocation, and forgets them. */
int stream_uses_wait(struct stream_uses *uses, const struct cuda *cuda, const void *pointer);

/* Takes the use out, so that no other thread can reach it. NULL: no stream is recorded. */
struct stream_use *stream_uses_take(struct stream_uses *uses, const void *pointer);

/* The allocation of a use that was taken lives on, with its recorded streams. */
void stream_uses_undo_end(struct stream_uses *uses, const struct cuda *cuda,
                          struct stream_use *take_use);

/* Waits for the work of a use that was taken. If that fails, the allocation lives on. */
int stream_uses_wait_out(struct stream_uses *uses, const struct cuda *cuda,
                         struct stream_use *take_use);
