#include "client/streams/uses.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/table.h"

/* The caller has the lock. */
static void list_unmarked(struct uses *uses, struct use *use)
{
        TAILQ_INSERT_TAIL(&uses->unmarked, use, unmarked_link);
        use->is_unmarked = true;
        atomic_fetch_add(&uses->n_unmarked, 1);
        after_call_add(uses->after_call, 1);
}

static void unlist_unmarked(struct uses *uses, struct use *use)
{
        if (!use->is_unmarked)
                return;
        TAILQ_REMOVE(&uses->unmarked, use, unmarked_link);
        use->is_unmarked = false;
        atomic_fetch_sub(&uses->n_unmarked, 1);
        after_call_sub(uses->after_call, 1);
}

void uses_init(struct uses *uses, struct after_call *after_call)
{
        *uses = (struct uses){.after_call = after_call};
        TAILQ_INIT(&uses->pending);
        TAILQ_INIT(&uses->unmarked);
        pthread_mutex_init(&uses->lock, NULL);
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
static int get(struct uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
               struct use **ret_use)
{
        struct use *use = find(uses->recorded, pointer);

        if (!use) {
                use = use_new(pointer, n_uses);
                if (!use)
                        return -ENOMEM;
                HASH_ADD_PTR(uses->recorded, pointer, use);
                if (!use->hh.tbl) {
                        use_drop(NULL, use);
                        return -ENOMEM;
                }
        }
        *ret_use = use;
        return 0;
}

int uses_add(struct uses *uses, const void *pointer, _Atomic uint32_t *n_uses, void *stream,
             const struct stream_key *key)
{
        struct used_in in = {.stream = stream, .key = *key};
        struct use *use;
        int r;

        pthread_mutex_lock(&uses->lock);
        r = get(uses, pointer, n_uses, &use);
        if (!r)
                r = use_add(use, &in);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

bool uses_has_recorded(struct uses *uses, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&uses->lock);
        found = find(uses->recorded, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

bool uses_has_parked(struct uses *uses, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&uses->lock);
        found = find(uses->parked, pointer) != NULL;
        pthread_mutex_unlock(&uses->lock);
        return found;
}

/* Takes it out of the recorded ones: no other thread comes by it then. */
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

/* The caller has the lock. */
static int add_parked(struct uses *uses, struct use *use)
{
        int r = find(uses->parked, use->pointer) ? GPUMEM_E_NOT_OURS : add_to(&uses->parked, use);

        if (r)
                return r;
        use->number = ++uses->n_ever_parked;
        TAILQ_INSERT_TAIL(&uses->pending, use, pending_link);
        atomic_fetch_add(&uses->n_parked, 1);
        if (!use_is_marked(use))
                list_unmarked(uses, use);
        return 0;
}

static void sub_parked(struct uses *uses, struct use *use)
{
        HASH_DEL(uses->parked, use);
        TAILQ_REMOVE(&uses->pending, use, pending_link);
        atomic_fetch_sub(&uses->n_parked, 1);
        unlist_unmarked(uses, use);
}

/* It is another thread's from the moment that the lock is gone, which frees it when its work is over.
 * GPUMEM_E_NOT_OURS: another thread has freed it at the same time. */
static int park(struct uses *uses, struct use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = add_parked(uses, use);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

/* It lives on, as it was recorded. */
static void undo_end(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        use_undo_end(use, cuda);
        if (!use->n_streams || put_back(uses, use))
                use_drop(cuda, use);
}

static int wait_out(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        int r = use_wait(use, cuda);

        if (r)
                undo_end(uses, cuda, use);
        else
                use_drop(cuda, use);
        return r;
}

/* When there is no memory the work is waited for. */
static int wait_instead(struct uses *uses, const struct cuda *cuda, struct use *use,
                        const struct use_end *how, enum uses_end *ret_end)
{
        int r = how->own_stream ? stream_synchronize_context(cuda, how->own.context) : 0;

        if (r)
                undo_end(uses, cuda, use);
        else
                r = wait_out(uses, cuda, use);
        if (!r)
                *ret_end = USES_OVER;
        return r;
}

static int park_or_wait(struct uses *uses, struct streams *streams, struct use *use,
                        const struct use_end *how, enum uses_end *ret_end)
{
        int r = use_begin_end(use, streams, how);

        if (!r) {
                streams_poll(streams);
                if (use_is_over(streams, use)) {
                        use_drop(streams->cuda, use);
                        *ret_end = USES_OVER;
                        return 0;
                }
                r = park(uses, use);
        }
        if (!r)
                *ret_end = USES_PARKED;
        else if (r == GPUMEM_E_NOT_OURS)
                use_drop(streams->cuda, use);
        else if (r == -ENOMEM)
                r = wait_instead(uses, streams->cuda, use, how, ret_end);
        else
                undo_end(uses, streams->cuda, use);
        return r;
}

/* One round a context. */
static void begin_rounds(struct streams *streams, const struct use_end *how,
                         struct use_round ret_rounds[USE_CONTEXTS])
{
        for (unsigned i = 0; i < USE_CONTEXTS; i++) {
                uint64_t context = how->contexts[i];
                bool is_again = i && context == how->contexts[0];

                ret_rounds[i].context = context;
                ret_rounds[i].number = is_again ? 0 : streams_begin_round(streams, context);
        }
}

/* No stream is known to use it beyond its free. */
static bool is_unused(struct streams *streams, const struct use_end *how,
                      const struct use_round rounds[USE_CONTEXTS])
{
        if (streams->way == FENCE_CONTEXT && (how->contexts[0] || how->contexts[1]))
                return false;
        if (use_are_done(streams, rounds))
                return true;
        streams_poll(streams);
        return use_are_done(streams, rounds);
}

static int wait_for_contexts(const struct cuda *cuda, const struct use_end *how,
                             enum uses_end *ret_end)
{
        int r = 0;

        for (unsigned i = 0; i < USE_CONTEXTS && !r; i++) {
                if (how->contexts[i])
                        r = stream_synchronize_context(cuda, how->contexts[i]);
        }
        if (!r)
                *ret_end = USES_OVER;
        return r;
}

int uses_park(struct uses *uses, struct streams *streams, const struct use_end *how,
              enum uses_end *ret_end)
{
        struct use *use = take(uses, how->pointer);
        struct use_round rounds[USE_CONTEXTS];

        if (!use && how->own_stream) {
                *ret_end = USES_NONE;
                return 0;
        }
        begin_rounds(streams, how, rounds);
        if (!use && is_unused(streams, how, rounds)) {
                *ret_end = USES_NONE;
                return 0;
        }
        if (!use)
                use = use_new(how->pointer, how->n_uses);
        if (!use)
                return wait_for_contexts(streams->cuda, how, ret_end);
        memcpy(use->rounds, rounds, sizeof(rounds));
        return park_or_wait(uses, streams, use, how, ret_end);
}

int uses_wait(struct uses *uses, const struct cuda *cuda, const void *pointer)
{
        struct use *use = take(uses, pointer);

        if (!use)
                return 0;
        use->n_recorded = use->n_streams;
        return wait_out(uses, cuda, use);
}

/* One that cannot be marked yet lets others go first the next time. */
void uses_mark(struct uses *uses, const struct cuda *cuda)
{
        struct use *use;
        int r = 0;

        pthread_mutex_lock(&uses->lock);
        while (!r && (use = TAILQ_FIRST(&uses->unmarked))) {
                unlist_unmarked(uses, use);
                r = use_mark(cuda, use);
                if (r)
                        list_unmarked(uses, use);
        }
        pthread_mutex_unlock(&uses->lock);
}

/* One that is not over lets others go first the next time. The caller has the lock. */
static struct use *find_over(struct uses *uses, struct streams *streams, uint32_t n_looks_max)
{
        uint32_t n_parked = atomic_load(&uses->n_parked);
        struct use *use;

        for (uint32_t i = 0; i < n_parked && i < n_looks_max; i++) {
                use = TAILQ_FIRST(&uses->pending);
                if (use_is_over(streams, use))
                        return use;
                TAILQ_REMOVE(&uses->pending, use, pending_link);
                TAILQ_INSERT_TAIL(&uses->pending, use, pending_link);
        }
        return NULL;
}

const void *uses_next_over(struct uses *uses, struct streams *streams, uint32_t n_looks_max)
{
        const void *pointer = NULL;
        struct use *use;

        pthread_mutex_lock(&uses->lock);
        use = find_over(uses, streams, n_looks_max);
        if (use)
                sub_parked(uses, use);
        pthread_mutex_unlock(&uses->lock);
        if (!use)
                return NULL;
        pointer = use->pointer;
        use_drop(streams->cuda, use);
        return pointer;
}

/* The next context whose work is not over that those up to a number wait for; 0: there is none above `above`. The
 * caller has the lock. */
static uint64_t next_context(const struct uses *uses, uint64_t above, uint64_t number)
{
        const struct use *use;
        uint64_t lowest = 0;

        TAILQ_FOREACH (use, &uses->pending, pending_link) {
                if (use->number <= number)
                        use_next_context(use, above, &lowest);
        }
        return lowest;
}

/* The context's work was waited for that those up to a number may wait for. The caller has the lock. */
static void pass_context(struct uses *uses, uint64_t context, uint64_t number)
{
        struct use *use;

        TAILQ_FOREACH (use, &uses->pending, pending_link) {
                if (use->number <= number)
                        use_pass_context(use, context);
        }
}

void uses_wait_parked(struct uses *uses, const struct cuda *cuda)
{
        uint64_t context = 0, number;

        pthread_mutex_lock(&uses->lock);
        number = uses->n_ever_parked;
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
