#include "client/capture/parked.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/capture/tie.h"

void parked_init(struct parked *parked)
{
        *parked = (struct parked){.all = NULL};
        pthread_mutex_init(&parked->lock, NULL);
}

static void free_record(struct parked_free *record)
{
        (void)tie_unref(record->tie);
        free(record);
}

void parked_deinit(struct parked *parked)
{
        struct parked_free *record, *next;

        HASH_ITER(hh, parked->all, record, next)
        {
                HASH_DEL(parked->all, record);
                free_record(record);
        }
        pthread_mutex_destroy(&parked->lock);
}

static struct parked_free *find(struct parked *parked, const void *pointer)
{
        struct parked_free *record;

        HASH_FIND_PTR(parked->all, &pointer, record);
        return record;
}

/* The caller has the lock. */
static int put(struct parked *parked, struct parked_free *record)
{
        if (find(parked, record->pointer))
                return GPUMEM_E_NOT_OURS;
        HASH_ADD_PTR(parked->all, pointer, record);
        if (!record->hh.tbl)
                return -ENOMEM;
        atomic_fetch_add(&parked->n, 1);
        return 0;
}

int parked_add(struct parked *parked, const void *pointer, void *stream,
               const struct stream_key *order, struct tie *take_tie)
{
        struct parked_free *record = calloc(1, sizeof(*record));
        int r;

        if (!record) {
                (void)tie_unref(take_tie);
                return -ENOMEM;
        }
        record->pointer = pointer;
        record->stream = stream;
        record->order = *order;
        record->tie = take_tie;
        pthread_mutex_lock(&parked->lock);
        r = put(parked, record);
        pthread_mutex_unlock(&parked->lock);
        if (r)
                free_record(record);
        return r;
}

bool parked_has(struct parked *parked, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&parked->lock);
        found = find(parked, pointer) != NULL;
        pthread_mutex_unlock(&parked->lock);
        return found;
}

static struct parked_free *take(struct parked *parked,
                                bool (*is_it)(const struct parked_free *record,
                                              const struct stream_key *key),
                                const struct stream_key *key)
{
        struct parked_free *record, *next, *found = NULL;

        pthread_mutex_lock(&parked->lock);
        HASH_ITER(hh, parked->all, record, next)
        {
                if (!found && is_it(record, key))
                        found = record;
        }
        if (found) {
                HASH_DEL(parked->all, found);
                atomic_fetch_sub(&parked->n, 1);
        }
        pthread_mutex_unlock(&parked->lock);
        return found;
}

static bool is_of_stream(const struct parked_free *record, const struct stream_key *order)
{
        return record->order.context == order->context && record->order.id == order->id;
}

struct parked_free *parked_take_of(struct parked *parked, const struct stream_key *order)
{
        return take(parked, is_of_stream, order);
}

static bool is_gone(const struct parked_free *record, const struct stream_key *order)
{
        (void)order;
        return tie_is_gone(record->tie);
}

struct parked_free *parked_take_gone(struct parked *parked)
{
        return parked_are_none(parked) ? NULL : take(parked, is_gone, NULL);
}

bool parked_end(struct parked *parked, struct parked_free *take_free, int r)
{
        if (r) {
                pthread_mutex_lock(&parked->lock);
                r = put(parked, take_free);
                pthread_mutex_unlock(&parked->lock);
                if (!r)
                        return false;
        }
        free_record(take_free);
        return true;
}
