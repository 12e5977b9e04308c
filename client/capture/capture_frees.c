/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/capture_frees.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/capture/graph_count.h"

void capture_frees_init(struct capture_frees *frees)
{
        *frees = (struct capture_frees){.all = NULL};
        pthread_mutex_init(&frees->lock, NULL);
}

static void free_record(struct capture_free *record)
{
        (void)graph_count_unref(record->graphs);
        free(record);
}

void capture_frees_deinit(struct capture_frees *frees)
{
        struct capture_free *record, *next;

        HASH_ITER(hh, frees->all, record, next)
        {
                HASH_DEL(frees->all, record);
                free_record(record);
        }
        while ((record = LIST_FIRST(&frees->more))) {
                LIST_REMOVE(record, link);
                free_record(record);
        }
        pthread_mutex_destroy(&frees->lock);
}

static struct capture_free *find(struct capture_frees *frees, const void *pointer)
{
        struct capture_free *record;

        HASH_FIND_PTR(frees->all, &pointer, record);
        if (record)
                return record;
        LIST_FOREACH (record, &frees->more, link) {
                if (record->pointer == pointer)
                        break;
        }
        return record;
}

/* The caller has the lock. */
static int put(struct capture_frees *frees, struct capture_free *record)
{
        if (find(frees, record->pointer))
                return GPUMEM_E_NOT_OURS;
        HASH_ADD_PTR(frees->all, pointer, record);
        if (!record->hh.tbl)
                return -ENOMEM;
        atomic_fetch_add(&frees->n, 1);
        return 0;
}

int capture_frees_add(struct capture_frees *frees, const void *pointer, void *stream,
                      const struct stream_key *order, struct graph_count *take_graphs)
{
        struct capture_free *record = calloc(1, sizeof(*record));
        int r;

        if (!record) {
                (void)graph_count_unref(take_graphs);
                return -ENOMEM;
        }
        record->pointer = pointer;
        record->stream = stream;
        record->order = *order;
        record->graphs = take_graphs;
        pthread_mutex_lock(&frees->lock);
        r = put(frees, record);
        pthread_mutex_unlock(&frees->lock);
        if (r)
                free_record(record);
        return r;
}

bool capture_frees_has(struct capture_frees *frees, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&frees->lock);
        found = find(frees, pointer) != NULL;
        pthread_mutex_unlock(&frees->lock);
        return found;
}

static struct capture_free *take_more(struct capture_frees *frees,
                                      bool (*is_it)(const struct capture_free *record,
                                                    const struct stream_key *key),
                                      const struct stream_key *key)
{
        struct capture_free *record;

        LIST_FOREACH (record, &frees->more, link) {
                if (is_it(record, key))
                        break;
        }
        if (record)
                LIST_REMOVE(record, link);
        return record;
}

static struct capture_free *take(struct capture_frees *frees,
                                 bool (*is_it)(const struct capture_free *record,
                                               const struct stream_key *key),
                                 const struct stream_key *key)
{
        struct capture_free *record, *next, *found = NULL;

        pthread_mutex_lock(&frees->lock);
        HASH_ITER(hh, frees->all, record, next)
        {
                if (!found && is_it(record, key))
                        found = record;
        }
        if (found)
                HASH_DEL(frees->all, found);
        else
                found = take_more(frees, is_it, key);
        if (found)
                atomic_fetch_sub(&frees->n, 1);
        pthread_mutex_unlock(&frees->lock);
        return found;
}

static bool is_of_stream(const struct capture_free *record, const struct stream_key *order)
{
        return record->order.context == order->context && record->order.id == order->id;
}

struct capture_free *capture_frees_take_of(struct capture_frees *frees,
                                           const struct stream_key *order)
{
        return take(frees, is_of_stream, order);
}

static bool is_gone(const struct capture_free *record, const struct stream_key *order)
{
        (void)order;
        return graph_count_is_gone(record->graphs);
}

struct capture_free *capture_frees_take_gone(struct capture_frees *frees)
{
        return capture_frees_none(frees) ? NULL : take(frees, is_gone, NULL);
}

/* The program has freed the memory, and does not do so again: a lack of memory must not lose it. The caller has the
 * lock. */
static int put_again(struct capture_frees *frees, struct capture_free *record)
{
        int r = put(frees, record);

        if (r != -ENOMEM)
                return r;
        LIST_INSERT_HEAD(&frees->more, record, link);
        atomic_fetch_add(&frees->n, 1);
        return 0;
}

bool capture_frees_end(struct capture_frees *frees, struct capture_free *take_free, int r)
{
        if (r) {
                pthread_mutex_lock(&frees->lock);
                r = put_again(frees, take_free);
                pthread_mutex_unlock(&frees->lock);
                if (!r)
                        return false;
        }
        free_record(take_free);
        return true;
}
