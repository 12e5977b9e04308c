/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: names under which a program counts its allocations. A thread sets a tag; its allocations from then on count
 * there until any thread frees them. Costs nothing while no client has a tag. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/watch/switches.h"
#include "gpumem.h"

#define TAGS_MAX 256

struct tag;
struct tagged;

struct tags {
        pthread_mutex_t lock;
        uint64_t client;     /* its number, never reused; never changes */
        struct tag *all;     /* by name; kept until the client ends */
        struct tagged *live; /* allocations by pointer */
};

void tags_init(struct tags *tags, uint64_t client);
void tags_deinit(struct tags *tags);

static inline bool tags_are_on(void)
{
        return switch_is_on(SWITCH_TAGS);
}

/* Sets the calling thread's tag; NULL: none. GPUMEM_E_BAD_REQUEST: an empty name, or one that is too long;
 * GPUMEM_E_TOO_MANY; -ENOMEM. */
int tags_set(struct tags *tags, const char *name);

/* GPUMEM_E_NO_TAG: no tag has that name. */
int tags_get(struct tags *tags, const char *name, struct gpumem_tag_stats *ret_stats);

/* An allocation has succeeded. Without memory for the entry it is not counted. */
void tags_alloc(struct tags *tags, const void *pointer, uint64_t n_bytes);

/* Called before a free, and after it with its result: right after the free, the pointer may be an allocation of
 * another thread. NULL: it has no tag. */
struct tagged *tags_begin_free(struct tags *tags, const void *pointer);
void tags_end_free(struct tags *tags, struct tagged *tagged, int r);
