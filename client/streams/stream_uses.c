/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/stream_uses.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"

void stream_uses_init(struct stream_uses *uses)
{
        *uses = (struct stream_uses){.recorded = NULL};
        pthread_mutex_init(&uses->lock, NULL);
}

void stream_uses_deinit(struct stream_uses *uses, const struct cuda *cuda)
{
        stream_use_free_all(&uses->recorded, cuda);
        pthread_mutex_destroy(&uses->lock);
}

static struct stream_use *find(const struct stream_uses *uses, const void *pointer)
{
        struct stream_use *use;

        HASH_FIND_PTR(uses->recorded, &pointer, use);
        return use;
}

/* Finds the use in the table of recorded ones, or makes it. */
static int get(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
               struct stream_use **ret_use)
{
        struct stream_use *use = find(uses, pointer);

        if (!use) {
                use = stream_use_new(pointer, n_uses);
                if (!use)
                        return -ENOMEM;
                HASH_ADD_PTR(uses->recorded, pointer, use);
                if (!use->hh.tbl) {
                        stream_use_drop(NULL, use);
                        return -ENOMEM;
                }
        }
        *ret_use = use;
        return 0;
}

int stream_uses_add(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
                    void *stream, const struct stream_key *key)
{
        struct used_in in = {.stream = stream, .key = *key};
        struct stream_use *use;
        int r;

        pthread_mutex_lock(&uses->lock);
        r = get(uses, pointer, n_uses, &use);
        if (!r)
                r = stream_use_add(use, &in);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

bool stream_uses_has_recorded(struct stream_uses *uses, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&uses->lock);
        found = find(uses, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

struct stream_use *stream_uses_take(struct stream_uses *uses, const void *pointer)
{
        struct stream_use *use;

        pthread_mutex_lock(&uses->lock);
        use = find(uses, pointer);
        if (use)
                HASH_DEL(uses->recorded, use);
        pthread_mutex_unlock(&uses->lock);
        return use;
}

/* The table has memory for the use if the use was in such a table a moment ago. */
static int put_back(struct stream_uses *uses, struct stream_use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        HASH_ADD_PTR(uses->recorded, pointer, use);
        r = use->hh.tbl ? 0 : -ENOMEM;
        pthread_mutex_unlock(&uses->lock);
        return r;
}

void stream_uses_undo_end(struct stream_uses *uses, const struct cuda *cuda,
                          struct stream_use *take_use)
{
        stream_use_undo_end(take_use, cuda);
        if (!take_use->n_streams || put_back(uses, take_use))
                stream_use_drop(cuda, take_use);
}

int stream_uses_wait_out(struct stream_uses *uses, const struct cuda *cuda,
                         struct stream_use *take_use)
{
        int r = stream_use_wait(take_use, cuda);

        if (r)
                stream_uses_undo_end(uses, cuda, take_use);
        else
                stream_use_drop(cuda, take_use);
        return r;
}

int stream_uses_wait(struct stream_uses *uses, const struct cuda *cuda, const void *pointer)
{
        struct stream_use *use = stream_uses_take(uses, pointer);

        if (!use)
                return 0;
        use->n_recorded = use->n_streams;
        return stream_uses_wait_out(uses, cuda, use);
}
