#include "client/uses.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"
#include "driver/event.h"

struct used_in {
        void *stream;
        struct stream_key key;
        struct work_event event; /* none: not recorded yet */
};

struct use {
        const void *pointer;
        uint32_t n_streams;
        uint32_t n_room;
        struct used_in *streams;
        UT_hash_handle hh;
};

void uses_init(struct uses *uses)
{
        *uses = (struct uses){.recorded = NULL};
        pthread_mutex_init(&uses->lock, NULL);
}

static void use_free(struct use *use, const struct cuda *cuda)
{
        for (uint32_t i = 0; i < use->n_streams; i++)
                event_free(cuda, &use->streams[i].event);
        free(use->streams);
        free(use);
}

static void free_all(struct use **table, const struct cuda *cuda)
{
        struct use *use, *next;

        HASH_ITER(hh, *table, use, next)
        {
                HASH_DEL(*table, use);
                use_free(use, cuda);
        }
}

void uses_deinit(struct uses *uses, const struct cuda *cuda)
{
        free_all(&uses->recorded, cuda);
        free_all(&uses->parked, cuda);
        pthread_mutex_destroy(&uses->lock);
}

static struct use *find(struct use *table, const void *pointer)
{
        struct use *use;

        HASH_FIND_PTR(table, &pointer, use);
        return use;
}

/* The table's own, made if need be. */
static int get(struct uses *uses, const void *pointer, struct use **ret_use)
{
        struct use *use = find(uses->recorded, pointer);

        if (!use) {
                use = calloc(1, sizeof(*use));
                if (!use)
                        return -ENOMEM;
                use->pointer = pointer;
                HASH_ADD_PTR(uses->recorded, pointer, use);
                if (!use->hh.tbl) {
                        free(use);
                        return -ENOMEM;
                }
                atomic_fetch_add(&uses->n, 1);
        }
        *ret_use = use;
        return 0;
}

static bool is_same(const struct stream_key *one, const struct stream_key *other)
{
        return one->context == other->context && one->id == other->id;
}

static int add(struct use *use, void *stream, const struct stream_key *key)
{
        struct used_in *streams = use->streams;

        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (is_same(&streams[i].key, key))
                        return 0;
        }
        if (use->n_streams == use->n_room) {
                uint32_t n_room = use->n_room ? use->n_room * 2 : 2;

                streams = realloc(streams, n_room * sizeof(*streams));
                if (!streams)
                        return -ENOMEM;
                use->streams = streams;
                use->n_room = n_room;
        }
        streams[use->n_streams++] = (struct used_in){.stream = stream, .key = *key};
        return 0;
}

int uses_add(struct uses *uses, const void *pointer, void *stream, const struct stream_key *key)
{
        struct use *use;
        int r;

        pthread_mutex_lock(&uses->lock);
        r = get(uses, pointer, &use);
        if (!r)
                r = add(use, stream, key);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

bool uses_has_parked(struct uses *uses, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&uses->lock);
        found = find(uses->parked, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

/* What a stream cannot say by an event its context says when all of its work is over. */
static int record(struct use *use, const struct cuda *cuda)
{
        int r = 0;

        for (uint32_t i = 0; i < use->n_streams && !r; i++) {
                struct used_in *in = &use->streams[i];

                r = event_record(cuda, in->key.context, in->stream, &in->event);
        }
        return r;
}

/* Takes it out of the recorded ones: nobody else comes by it then. */
static struct use *take(struct uses *uses, const void *pointer)
{
        struct use *use;

        pthread_mutex_lock(&uses->lock);
        use = find(uses->recorded, pointer);
        if (use)
                HASH_DEL(uses->recorded, use);
        pthread_mutex_unlock(&uses->lock);
        return use;
}

/* The caller has the lock. There is memory for it, if it was in such a table a moment ago. */
static int add_to(struct use **table, struct use *use)
{
        HASH_ADD_PTR(*table, pointer, use);
        return use->hh.tbl ? 0 : -ENOMEM;
}

static int put_back(struct uses *uses, struct use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = add_to(&uses->recorded, use);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

/* It is another thread's from the moment that the lock is gone, who frees it when its work is over. */
static int park(struct uses *uses, struct use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = add_to(&uses->parked, use);
        if (!r)
                atomic_fetch_add(&uses->n_parked, 1);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

static void drop(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        atomic_fetch_sub(&uses->n, 1);
        use_free(use, cuda);
}

static int wait_for(const struct use *use, const struct cuda *cuda)
{
        int r = 0;

        for (uint32_t i = 0; i < use->n_streams && !r; i++)
                r = stream_synchronize_context(cuda, use->streams[i].key.context);
        return r;
}

/* When there is no event, or no memory, the work is waited for. */
int uses_park(struct uses *uses, const struct cuda *cuda, const void *pointer, bool *ret_parked)
{
        struct use *use = take(uses, pointer);
        int r;

        if (!use) {
                *ret_parked = false;
                return 0;
        }
        if (record(use, cuda) == 0 && park(uses, use) == 0) {
                *ret_parked = true;
                return 0;
        }
        r = wait_for(use, cuda);
        if (r && put_back(uses, use) == 0)
                return r;
        drop(uses, cuda, use);
        *ret_parked = false;
        return r;
}

int uses_wait(struct uses *uses, const struct cuda *cuda, const void *pointer)
{
        struct use *use = take(uses, pointer);
        int r;

        if (!use)
                return 0;
        r = wait_for(use, cuda);
        if (r && put_back(uses, use) == 0)
                return r;
        drop(uses, cuda, use);
        return r;
}

static bool is_over(const struct use *use, const struct cuda *cuda)
{
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (!event_is_over(cuda, &use->streams[i].event))
                        return false;
        }
        return true;
}

/* The caller has the lock. */
static struct use *find_over(struct uses *uses, const struct cuda *cuda, bool wait)
{
        struct use *use, *next;

        HASH_ITER(hh, uses->parked, use, next)
        {
                if (is_over(use, cuda))
                        return use;
        }
        use = wait ? uses->parked : NULL;
        return use && wait_for(use, cuda) == 0 ? use : NULL;
}

const void *uses_next_over(struct uses *uses, const struct cuda *cuda, bool wait)
{
        const void *pointer = NULL;
        struct use *use;

        pthread_mutex_lock(&uses->lock);
        use = find_over(uses, cuda, wait);
        if (use) {
                HASH_DEL(uses->parked, use);
                atomic_fetch_sub(&uses->n_parked, 1);
        }
        pthread_mutex_unlock(&uses->lock);
        if (!use)
                return NULL;
        pointer = use->pointer;
        drop(uses, cuda, use);
        return pointer;
}
