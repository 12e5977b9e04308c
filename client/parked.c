#include "client/parked.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"
#include "client/client.h"

struct parked_free {
        const void *pointer;
        void *stream;
        struct stream_key order;
        struct tie *tie;
        UT_hash_handle hh;
};

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

/* What is asked for; nobody else comes by it then. */
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

/* What cannot be freed waits for another time. */
static bool end(struct parked *parked, struct parked_free *record, int r)
{
        if (r) {
                pthread_mutex_lock(&parked->lock);
                r = put(parked, record);
                pthread_mutex_unlock(&parked->lock);
                if (!r)
                        return false;
        }
        free_record(record);
        return true;
}

static bool is_of_stream(const struct parked_free *record, const struct stream_key *key)
{
        return record->order.context == key->context && record->order.id == key->id;
}

/* By its handle: the driver does not tell the id of a stream that captures. */
void parked_look(struct gpumem_client *client, void *stream)
{
        struct parked_free *record;
        struct stream_key key, by_handle;
        bool more = true;
        int ordinal;

        if (parked_are_none(&client->parked) ||
            stream_identify(&client->cuda, stream, &key, &ordinal))
                return;
        by_handle = key;
        by_handle.id = (uint64_t)(uintptr_t)stream;
        while (more && (record = take(&client->parked, is_of_stream, &by_handle)))
                more = end(&client->parked, record,
                           client_free_ordered(client, record->pointer, stream, &key));
}

static bool is_over(const struct parked_free *record, const struct stream_key *key)
{
        (void)key;
        return tie_is_gone(record->tie);
}

bool parked_wait(struct gpumem_client *client)
{
        struct parked_free *record;
        bool more = true, any = false;

        while (more && !parked_are_none(&client->parked) &&
               (record = take(&client->parked, is_over, NULL))) {
                int r = stream_synchronize_context(&client->cuda, record->order.context);

                if (!r)
                        r = client_free_over(client, record->pointer);
                more = end(&client->parked, record, r);
                any = any || more;
        }
        return any;
}
