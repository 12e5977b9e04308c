/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/tags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

struct tag {
        char name[GPUMEM_TAG_BYTES];
        struct gpumem_tag_stats stats;
        UT_hash_handle hh;
};

struct tagged {
        const void *pointer;
        uint64_t n_bytes;
        struct tag *tag;
        UT_hash_handle hh;
};

/* Compared by client number, which is never reused: the tag of a client that has ended is not read. */
static _Thread_local struct {
        uint64_t client;
        struct tag *tag;
} current;

void tags_init(struct tags *tags, uint64_t client)
{
        *tags = (struct tags){.client = client};
        pthread_mutex_init(&tags->lock, NULL);
}

void tags_deinit(struct tags *tags)
{
        struct tagged *tagged, *next_tagged;
        struct tag *tag, *next_tag;

        HASH_ITER(hh, tags->live, tagged, next_tagged)
        {
                HASH_DEL(tags->live, tagged);
                free(tagged);
        }
        HASH_ITER(hh, tags->all, tag, next_tag)
        {
                HASH_DEL(tags->all, tag);
                free(tag);
        }
        pthread_mutex_destroy(&tags->lock);
}

static struct tag *find(struct tags *tags, const char *name)
{
        struct tag *tag;

        HASH_FIND_STR(tags->all, name, tag);
        return tag;
}

/* The caller has the lock. */
static int get(struct tags *tags, const char *name, struct tag **ret_tag)
{
        struct tag *tag = find(tags, name);

        if (!tag && HASH_COUNT(tags->all) >= TAGS_MAX)
                return GPUMEM_E_TOO_MANY;
        if (!tag) {
                tag = calloc(1, sizeof(*tag));
                if (!tag)
                        return -ENOMEM;
                memcpy(tag->name, name, strlen(name) + 1);
                HASH_ADD_STR(tags->all, name, tag);
                if (!tag->hh.tbl) {
                        free(tag);
                        return -ENOMEM;
                }
        }
        *ret_tag = tag;
        return 0;
}

int tags_set(struct tags *tags, const char *name)
{
        struct tag *tag = NULL;
        int r = 0;

        if (name && (!*name || strnlen(name, GPUMEM_TAG_BYTES) == GPUMEM_TAG_BYTES))
                return GPUMEM_E_BAD_REQUEST;
        if (name) {
                pthread_mutex_lock(&tags->lock);
                r = get(tags, name, &tag);
                pthread_mutex_unlock(&tags->lock);
        }
        if (r)
                return r;
        if (!tag && current.client != tags->client)
                return 0;
        current.client = tags->client;
        current.tag = tag;
        if (tag)
                switch_on(SWITCH_TAGS);
        return 0;
}

int tags_get(struct tags *tags, const char *name, struct gpumem_tag_stats *ret_stats)
{
        const struct tag *tag;

        pthread_mutex_lock(&tags->lock);
        tag = find(tags, name);
        if (tag)
                *ret_stats = tag->stats;
        pthread_mutex_unlock(&tags->lock);
        return tag ? 0 : GPUMEM_E_NO_TAG;
}

static void count(struct tag *tag, uint64_t n_bytes)
{
        struct gpumem_tag_stats *stats = &tag->stats;

        stats->n_live++;
        stats->n_allocations++;
        stats->n_requested_bytes += n_bytes;
        if (stats->n_requested_bytes > stats->n_requested_peak_bytes)
                stats->n_requested_peak_bytes = stats->n_requested_bytes;
}

static void end(struct tagged *tagged)
{
        struct gpumem_tag_stats *stats = &tagged->tag->stats;

        stats->n_live--;
        stats->n_requested_bytes -= tagged->n_bytes;
        stats->n_frees++;
        free(tagged);
}

/* An entry with this pointer is left from two frees at the same time, of which one was not seen. The caller has the
 * lock. */
static void end_last(struct tags *tags, const void *pointer)
{
        struct tagged *last;

        HASH_FIND_PTR(tags->live, &pointer, last);
        if (!last)
                return;
        HASH_DEL(tags->live, last);
        end(last);
}

void tags_alloc(struct tags *tags, const void *pointer, uint64_t n_bytes)
{
        struct tagged *tagged;

        if (!current.tag || current.client != tags->client)
                return;
        tagged = calloc(1, sizeof(*tagged));
        if (!tagged)
                return;
        *tagged = (struct tagged){.pointer = pointer, .n_bytes = n_bytes, .tag = current.tag};
        pthread_mutex_lock(&tags->lock);
        end_last(tags, pointer);
        HASH_ADD_PTR(tags->live, pointer, tagged);
        if (tagged->hh.tbl)
                count(tagged->tag, n_bytes);
        pthread_mutex_unlock(&tags->lock);
        if (!tagged->hh.tbl)
                free(tagged);
}

struct tagged *tags_begin_free(struct tags *tags, const void *pointer)
{
        struct tagged *tagged;

        pthread_mutex_lock(&tags->lock);
        HASH_FIND_PTR(tags->live, &pointer, tagged);
        if (tagged) {
                HASH_DEL(tags->live, tagged);
                tagged->hh.tbl = NULL;
        }
        pthread_mutex_unlock(&tags->lock);
        return tagged;
}

void tags_end_free(struct tags *tags, struct tagged *tagged, int r)
{
        if (!tagged)
                return;
        pthread_mutex_lock(&tags->lock);
        if (r && r != GPUMEM_E_NOT_OURS)
                HASH_ADD_PTR(tags->live, pointer, tagged);
        if (!tagged->hh.tbl)
                end(tagged);
        pthread_mutex_unlock(&tags->lock);
}
