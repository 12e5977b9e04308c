/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/stream_uses.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/table.h"

/* The caller has the lock. */
static void list_unmarked(struct stream_uses *uses, struct stream_use *use)
{
        TAILQ_INSERT_TAIL(&uses->unmarked, use, unmarked_link);
        use->is_unmarked = true;
        atomic_fetch_add(&uses->n_unmarked, 1);
        after_call_add(uses->after_call, 1);
}

static void unlist_unmarked(struct stream_uses *uses, struct stream_use *use)
{
        if (!use->is_unmarked)
                return;
        TAILQ_REMOVE(&uses->unmarked, use, unmarked_link);
        use->is_unmarked = false;
        atomic_fetch_sub(&uses->n_unmarked, 1);
        after_call_sub(uses->after_call, 1);
}

void stream_uses_init(struct stream_uses *uses, struct after_call *after_call)
{
        *uses = (struct stream_uses){.after_call = after_call};
        TAILQ_INIT(&uses->pending);
        TAILQ_INIT(&uses->unmarked);
        pthread_mutex_init(&uses->lock, NULL);
}

static void free_all(struct stream_use **table, const struct cuda *cuda)
{
        struct stream_use *use, *next;

        HASH_ITER(hh, *table, use, next)
        {
                HASH_DEL(*table, use);
                stream_use_free(use, cuda);
        }
}

void stream_uses_deinit(struct stream_uses *uses, const struct cuda *cuda)
{
        free_all(&uses->recorded, cuda);
        free_all(&uses->deferred, cuda);
        pthread_mutex_destroy(&uses->lock);
}

static struct stream_use *find(struct stream_use *table, const void *pointer)
{
        struct stream_use *use;

        HASH_FIND_PTR(table, &pointer, use);
        return use;
}

/* Finds the use in the table of recorded ones, or makes it. */
static int get(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
               struct stream_use **ret_use)
{
        struct stream_use *use = find(uses->recorded, pointer);

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
        found = find(uses->recorded, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

bool stream_uses_has_deferred(struct stream_uses *uses, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&uses->lock);
        found = find(uses->deferred, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

/* Takes the use out of the recorded ones, so that no other thread can reach it. */
static struct stream_use *take(struct stream_uses *uses, const void *pointer)
{
        struct stream_use *use;

        pthread_mutex_lock(&uses->lock);
        use = find(uses->recorded, pointer);
        if (use)
                HASH_DEL(uses->recorded, use);
        pthread_mutex_unlock(&uses->lock);
        return use;
}

/* The caller has the lock. The table has memory for the use if it was in such a table a moment ago. */
static int add_to(struct stream_use **table, struct stream_use *use)
{
        HASH_ADD_PTR(*table, pointer, use);
        return use->hh.tbl ? 0 : -ENOMEM;
}

static int put_back(struct stream_uses *uses, struct stream_use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = add_to(&uses->recorded, use);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

/* The caller has the lock. */
static int add_deferred(struct stream_uses *uses, struct stream_use *use)
{
        int r = find(uses->deferred, use->pointer) ? GPUMEM_E_NOT_OURS
                                                   : add_to(&uses->deferred, use);

        if (r)
                return r;
        use->number = ++uses->n_ever_deferred;
        TAILQ_INSERT_TAIL(&uses->pending, use, pending_link);
        atomic_fetch_add(&uses->n_deferred, 1);
        if (!stream_use_is_marked(use))
                list_unmarked(uses, use);
        return 0;
}

static void sub_deferred(struct stream_uses *uses, struct stream_use *use)
{
        HASH_DEL(uses->deferred, use);
        TAILQ_REMOVE(&uses->pending, use, pending_link);
        atomic_fetch_sub(&uses->n_deferred, 1);
        unlist_unmarked(uses, use);
}

/* As soon as the lock is released, another thread may free the use when its work is over. GPUMEM_E_NOT_OURS: another
 * thread has freed the allocation at the same time. */
static int defer(struct stream_uses *uses, struct stream_use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = add_deferred(uses, use);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

/* The allocation lives on, with its recorded streams. */
static void undo_end(struct stream_uses *uses, const struct cuda *cuda, struct stream_use *use)
{
        stream_use_undo_end(use, cuda);
        if (!use->n_streams || put_back(uses, use))
                stream_use_drop(cuda, use);
}

static int wait_out(struct stream_uses *uses, const struct cuda *cuda, struct stream_use *use)
{
        int r = stream_use_wait(use, cuda);

        if (r)
                undo_end(uses, cuda, use);
        else
                stream_use_drop(cuda, use);
        return r;
}

/* Without memory for the deferral, this waits for the work. */
static int wait_instead(struct stream_uses *uses, const struct cuda *cuda, struct stream_use *use,
                        const struct stream_use_end *how, enum stream_uses_end *ret_end)
{
        int r = how->own_stream ? stream_synchronize_context(cuda, how->own.context) : 0;

        if (r)
                undo_end(uses, cuda, use);
        else
                r = wait_out(uses, cuda, use);
        if (!r)
                *ret_end = STREAM_USES_OVER;
        return r;
}

static int defer_or_wait(struct stream_uses *uses, struct streams *streams, struct stream_use *use,
                         const struct stream_use_end *how, enum stream_uses_end *ret_end)
{
        int r = stream_use_begin_end(use, streams, how);

        if (!r) {
                streams_poll(streams);
                if (stream_use_is_over(streams, use)) {
                        stream_use_drop(streams->cuda, use);
                        *ret_end = STREAM_USES_OVER;
                        return 0;
                }
                r = defer(uses, use);
        }
        if (!r)
                *ret_end = STREAM_USES_DEFERRED;
        else if (r == GPUMEM_E_NOT_OURS)
                stream_use_drop(streams->cuda, use);
        else if (r == -ENOMEM)
                r = wait_instead(uses, streams->cuda, use, how, ret_end);
        else
                undo_end(uses, streams->cuda, use);
        return r;
}

/* Begins one round for each context. */
static void begin_rounds(struct streams *streams, const struct stream_use_end *how,
                         struct stream_use_round ret_rounds[STREAM_USE_CONTEXTS])
{
        for (unsigned i = 0; i < STREAM_USE_CONTEXTS; i++) {
                uint64_t context = how->contexts[i];
                bool is_again = i && context == how->contexts[0];

                ret_rounds[i].context = context;
                ret_rounds[i].number = is_again ? 0 : streams_begin_round(streams, context);
        }
}

/* Is no stream known to use it after its free? */
static bool is_unused(struct streams *streams, const struct stream_use_end *how,
                      const struct stream_use_round rounds[STREAM_USE_CONTEXTS])
{
        if (streams->way == FENCE_CONTEXT && (how->contexts[0] || how->contexts[1]))
                return false;
        if (stream_use_are_done(streams, rounds))
                return true;
        streams_poll(streams);
        return stream_use_are_done(streams, rounds);
}

static int wait_for_contexts(const struct cuda *cuda, const struct stream_use_end *how,
                             enum stream_uses_end *ret_end)
{
        int r = 0;

        for (unsigned i = 0; i < STREAM_USE_CONTEXTS && !r; i++) {
                if (how->contexts[i])
                        r = stream_synchronize_context(cuda, how->contexts[i]);
        }
        if (!r)
                *ret_end = STREAM_USES_OVER;
        return r;
}

int stream_uses_defer(struct stream_uses *uses, struct streams *streams,
                      const struct stream_use_end *how, enum stream_uses_end *ret_end)
{
        struct stream_use *use = take(uses, how->pointer);
        struct stream_use_round rounds[STREAM_USE_CONTEXTS];

        if (!use && how->own_stream) {
                *ret_end = STREAM_USES_NONE;
                return 0;
        }
        begin_rounds(streams, how, rounds);
        if (!use && is_unused(streams, how, rounds)) {
                *ret_end = STREAM_USES_NONE;
                return 0;
        }
        if (!use)
                use = stream_use_new(how->pointer, how->n_uses);
        if (!use)
                return wait_for_contexts(streams->cuda, how, ret_end);
        memcpy(use->rounds, rounds, sizeof(rounds));
        return defer_or_wait(uses, streams, use, how, ret_end);
}

int stream_uses_wait(struct stream_uses *uses, const struct cuda *cuda, const void *pointer)
{
        struct stream_use *use = take(uses, pointer);

        if (!use)
                return 0;
        use->n_recorded = use->n_streams;
        return wait_out(uses, cuda, use);
}

/* A use that cannot be marked yet goes to the end, so that the next call tries others first. */
void stream_uses_mark(struct stream_uses *uses, const struct cuda *cuda)
{
        struct stream_use *use;
        int r = 0;

        pthread_mutex_lock(&uses->lock);
        while (!r && (use = TAILQ_FIRST(&uses->unmarked))) {
                unlist_unmarked(uses, use);
                r = stream_use_mark(cuda, use);
                if (r)
                        list_unmarked(uses, use);
        }
        pthread_mutex_unlock(&uses->lock);
}

/* A use that is not over goes to the end, so that the next call polls others first. The caller has the lock. */
static struct stream_use *find_over(struct stream_uses *uses, struct streams *streams,
                                    uint32_t n_looks_max)
{
        uint32_t n_deferred = atomic_load(&uses->n_deferred);
        struct stream_use *use;

        for (uint32_t i = 0; i < n_deferred && i < n_looks_max; i++) {
                use = TAILQ_FIRST(&uses->pending);
                if (stream_use_is_over(streams, use))
                        return use;
                TAILQ_REMOVE(&uses->pending, use, pending_link);
                TAILQ_INSERT_TAIL(&uses->pending, use, pending_link);
        }
        return NULL;
}

struct stream_use *stream_uses_next_over(struct stream_uses *uses, struct streams *streams,
                                         uint32_t n_looks_max)
{
        struct stream_use *use;

        pthread_mutex_lock(&uses->lock);
        use = find_over(uses, streams, n_looks_max);
        if (use) {
                sub_deferred(uses, use);
                atomic_fetch_sub(use->n_uses, 1);
        }
        pthread_mutex_unlock(&uses->lock);
        return use;
}

/* The lowest context above `above` that uses up to `number` still wait for; 0: none. The caller has the lock. */
static uint64_t next_context(const struct stream_uses *uses, uint64_t above, uint64_t number)
{
        const struct stream_use *use;
        uint64_t lowest = 0;

        TAILQ_FOREACH (use, &uses->pending, pending_link) {
                if (use->number <= number)
                        stream_use_next_context(use, above, &lowest);
        }
        return lowest;
}

/* Notes for all uses up to `number` that the context's work was waited for. The caller has the lock. */
static void pass_context(struct stream_uses *uses, uint64_t context, uint64_t number)
{
        struct stream_use *use;

        TAILQ_FOREACH (use, &uses->pending, pending_link) {
                if (use->number <= number)
                        stream_use_pass_context(use, context);
        }
}

void stream_uses_wait_deferred(struct stream_uses *uses, const struct cuda *cuda)
{
        uint64_t context = 0, number;

        pthread_mutex_lock(&uses->lock);
        number = uses->n_ever_deferred;
        while ((context = next_context(uses, context, number))) {
                int r;

                pthread_mutex_unlock(&uses->lock);
                r = stream_synchronize_context(cuda, context);
                pthread_mutex_lock(&uses->lock);
                if (!r)
                        pass_context(uses, context, number);
        }
        pthread_mutex_unlock(&uses->lock);
}
