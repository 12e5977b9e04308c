/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/deferred_free.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/capture/graph_lifetime.h"

void deferred_free_init(struct deferred_frees *deferred)
{
        *deferred = (struct deferred_frees){.all = NULL};
        pthread_mutex_init(&deferred->lock, NULL);
}

static void free_record(struct deferred_free *record)
{
        (void)graph_lifetime_unref(record->lifetime);
        free(record);
}

void deferred_free_deinit(struct deferred_frees *deferred)
{
        struct deferred_free *record, *next;

        HASH_ITER(hh, deferred->all, record, next)
        {
                HASH_DEL(deferred->all, record);
                free_record(record);
        }
        pthread_mutex_destroy(&deferred->lock);
}

static struct deferred_free *find(struct deferred_frees *deferred, const void *pointer)
{
        struct deferred_free *record;

        HASH_FIND_PTR(deferred->all, &pointer, record);
        return record;
}

/* The caller has the lock. */
static int put(struct deferred_frees *deferred, struct deferred_free *record)
{
        if (find(deferred, record->pointer))
                return GPUMEM_E_NOT_OURS;
        HASH_ADD_PTR(deferred->all, pointer, record);
        if (!record->hh.tbl)
                return -ENOMEM;
        atomic_fetch_add(&deferred->n, 1);
        return 0;
}

int deferred_free_add(struct deferred_frees *deferred, const void *pointer, void *stream,
                      const struct stream_key *order, struct graph_lifetime *take_lifetime)
{
        struct deferred_free *record = calloc(1, sizeof(*record));
        int r;

        if (!record) {
                (void)graph_lifetime_unref(take_lifetime);
                return -ENOMEM;
        }
        record->pointer = pointer;
        record->stream = stream;
        record->order = *order;
        record->lifetime = take_lifetime;
        pthread_mutex_lock(&deferred->lock);
        r = put(deferred, record);
        pthread_mutex_unlock(&deferred->lock);
        if (r)
                free_record(record);
        return r;
}

bool deferred_free_has(struct deferred_frees *deferred, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&deferred->lock);
        found = find(deferred, pointer) != NULL;
        pthread_mutex_unlock(&deferred->lock);
        return found;
}

static struct deferred_free *take(struct deferred_frees *deferred,
                                  bool (*is_it)(const struct deferred_free *record,
                                                const struct stream_key *key),
                                  const struct stream_key *key)
{
        struct deferred_free *record, *next, *found = NULL;

        pthread_mutex_lock(&deferred->lock);
        HASH_ITER(hh, deferred->all, record, next)
        {
                if (!found && is_it(record, key))
                        found = record;
        }
        if (found) {
                HASH_DEL(deferred->all, found);
                atomic_fetch_sub(&deferred->n, 1);
        }
        pthread_mutex_unlock(&deferred->lock);
        return found;
}

static bool is_of_stream(const struct deferred_free *record, const struct stream_key *order)
{
        return record->order.context == order->context && record->order.id == order->id;
}

struct deferred_free *deferred_free_take_of(struct deferred_frees *deferred,
                                            const struct stream_key *order)
{
        return take(deferred, is_of_stream, order);
}

static bool is_gone(const struct deferred_free *record, const struct stream_key *order)
{
        (void)order;
        return graph_lifetime_is_gone(record->lifetime);
}

struct deferred_free *deferred_free_take_gone(struct deferred_frees *deferred)
{
        return deferred_free_none(deferred) ? NULL : take(deferred, is_gone, NULL);
}

bool deferred_free_end(struct deferred_frees *deferred, struct deferred_free *take_free, int r)
{
        if (r) {
                pthread_mutex_lock(&deferred->lock);
                r = put(deferred, take_free);
                pthread_mutex_unlock(&deferred->lock);
                if (!r)
                        return false;
        }
        free_record(take_free);
        return true;
}
