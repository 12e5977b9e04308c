/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/deferred_frees.h"

#include <string.h>

#include "base/err.h"
#include "base/table.h"
#include "client/streams/stream_uses.h"

/* The caller has the lock. */
static void list_unmarked(struct deferred_frees *frees, struct stream_use *use)
{
        TAILQ_INSERT_TAIL(&frees->unmarked, use, unmarked_link);
        use->is_unmarked = true;
        atomic_fetch_add(&frees->n_unmarked, 1);
        after_call_add(frees->after_call, 1);
}

static void unlist_unmarked(struct deferred_frees *frees, struct stream_use *use)
{
        if (!use->is_unmarked)
                return;
        TAILQ_REMOVE(&frees->unmarked, use, unmarked_link);
        use->is_unmarked = false;
        atomic_fetch_sub(&frees->n_unmarked, 1);
        after_call_sub(frees->after_call, 1);
}

void deferred_frees_init(struct deferred_frees *frees, struct stream_uses *uses,
                         struct after_call *after_call)
{
        *frees = (struct deferred_frees){.uses = uses, .after_call = after_call};
        TAILQ_INIT(&frees->pending);
        TAILQ_INIT(&frees->unmarked);
        pthread_mutex_init(&frees->lock, NULL);
}

void deferred_frees_deinit(struct deferred_frees *frees, const struct cuda *cuda)
{
        stream_use_free_all(&frees->all, cuda);
        pthread_mutex_destroy(&frees->lock);
}

static struct stream_use *find(const struct deferred_frees *frees, const void *pointer)
{
        struct stream_use *use;

        HASH_FIND_PTR(frees->all, &pointer, use);
        return use;
}

bool deferred_frees_has(struct deferred_frees *frees, const void *pointer)
{
        bool found;

        pthread_mutex_lock(&frees->lock);
        found = find(frees, pointer) != NULL;
        pthread_mutex_unlock(&frees->lock);
        return found;
}

/* The caller has the lock. */
static int put(struct deferred_frees *frees, struct stream_use *use)
{
        if (find(frees, use->pointer))
                return GPUMEM_E_NOT_OURS;
        HASH_ADD_PTR(frees->all, pointer, use);
        if (!use->hh.tbl)
                return -ENOMEM;
        use->number = ++frees->n_ever;
        TAILQ_INSERT_TAIL(&frees->pending, use, pending_link);
        atomic_fetch_add(&frees->n, 1);
        if (!stream_use_is_marked(use))
                list_unmarked(frees, use);
        return 0;
}

/* The caller has the lock. */
static void take_out(struct deferred_frees *frees, struct stream_use *use)
{
        HASH_DEL(frees->all, use);
        TAILQ_REMOVE(&frees->pending, use, pending_link);
        atomic_fetch_sub(&frees->n, 1);
        unlist_unmarked(frees, use);
}

/* As soon as the lock is released, another thread may free the use when its work is over. GPUMEM_E_NOT_OURS: another
 * thread has freed the allocation at the same time. */
static int defer(struct deferred_frees *frees, struct stream_use *use)
{
        int r;

        pthread_mutex_lock(&frees->lock);
        r = put(frees, use);
        pthread_mutex_unlock(&frees->lock);
        return r;
}

/* Without memory for the deferral, this waits for the work. */
static int wait_instead(struct deferred_frees *frees, const struct cuda *cuda,
                        struct stream_use *use, const struct stream_use_end *how,
                        enum deferred_frees_end *ret_end)
{
        int r = how->own_stream ? stream_synchronize_context(cuda, how->own.context) : 0;

        if (r)
                stream_uses_undo_end(frees->uses, cuda, use);
        else
                r = stream_uses_wait_out(frees->uses, cuda, use);
        if (!r)
                *ret_end = DEFERRED_FREES_OVER;
        return r;
}

static int defer_or_wait(struct deferred_frees *frees, struct streams *streams,
                         struct stream_use *use, const struct stream_use_end *how,
                         enum deferred_frees_end *ret_end)
{
        int r = stream_use_begin_end(use, streams, how);

        if (!r) {
                streams_poll(streams);
                if (stream_use_is_over(streams, use)) {
                        stream_use_drop(streams->cuda, use);
                        *ret_end = DEFERRED_FREES_OVER;
                        return 0;
                }
                r = defer(frees, use);
        }
        if (!r)
                *ret_end = DEFERRED_FREES_DEFERRED;
        else if (r == GPUMEM_E_NOT_OURS)
                stream_use_drop(streams->cuda, use);
        else if (r == -ENOMEM)
                r = wait_instead(frees, streams->cuda, use, how, ret_end);
        else
                stream_uses_undo_end(frees->uses, streams->cuda, use);
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
                             enum deferred_frees_end *ret_end)
{
        int r = 0;

        for (unsigned i = 0; i < STREAM_USE_CONTEXTS && !r; i++) {
                if (how->contexts[i])
                        r = stream_synchronize_context(cuda, how->contexts[i]);
        }
        if (!r)
                *ret_end = DEFERRED_FREES_OVER;
        return r;
}

int deferred_frees_add(struct deferred_frees *frees, struct streams *streams,
                       const struct stream_use_end *how, enum deferred_frees_end *ret_end)
{
        struct stream_use *use = stream_uses_take(frees->uses, how->pointer);
        struct stream_use_round rounds[STREAM_USE_CONTEXTS];

        if (!use && how->own_stream) {
                *ret_end = DEFERRED_FREES_NONE;
                return 0;
        }
        begin_rounds(streams, how, rounds);
        if (!use && is_unused(streams, how, rounds)) {
                *ret_end = DEFERRED_FREES_NONE;
                return 0;
        }
        if (!use)
                use = stream_use_new(how->pointer, how->n_uses);
        if (!use)
                return wait_for_contexts(streams->cuda, how, ret_end);
        memcpy(use->rounds, rounds, sizeof(rounds));
        return defer_or_wait(frees, streams, use, how, ret_end);
}

/* A use that cannot be marked yet goes to the end, so that the next call tries others first. */
void deferred_frees_mark(struct deferred_frees *frees, struct streams *streams)
{
        struct stream_use *use;
        int r = 0;

        pthread_mutex_lock(&frees->lock);
        while (!r && (use = TAILQ_FIRST(&frees->unmarked))) {
                unlist_unmarked(frees, use);
                r = stream_use_mark(streams, use);
                if (r)
                        list_unmarked(frees, use);
        }
        pthread_mutex_unlock(&frees->lock);
}

/* A use that is not over goes to the end, so that the next call polls others first. The caller has the lock. */
static struct stream_use *find_over(struct deferred_frees *frees, struct streams *streams,
                                    uint32_t n_looks_max)
{
        uint32_t n_deferred = atomic_load(&frees->n);
        struct stream_use *use;

        for (uint32_t i = 0; i < n_deferred && i < n_looks_max; i++) {
                use = TAILQ_FIRST(&frees->pending);
                if (stream_use_is_over(streams, use))
                        return use;
                TAILQ_REMOVE(&frees->pending, use, pending_link);
                TAILQ_INSERT_TAIL(&frees->pending, use, pending_link);
        }
        return NULL;
}

struct stream_use *deferred_frees_next_over(struct deferred_frees *frees, struct streams *streams,
                                            uint32_t n_looks_max)
{
        struct stream_use *use;

        pthread_mutex_lock(&frees->lock);
        use = find_over(frees, streams, n_looks_max);
        if (use) {
                take_out(frees, use);
                atomic_fetch_sub(use->n_uses, 1);
        }
        pthread_mutex_unlock(&frees->lock);
        return use;
}

/* The lowest context above `above` that uses up to `number` still wait for; 0: none. The caller has the lock. */
static uint64_t next_context(const struct deferred_frees *frees, uint64_t above, uint64_t number)
{
        const struct stream_use *use;
        uint64_t lowest = 0;

        TAILQ_FOREACH (use, &frees->pending, pending_link) {
                if (use->number <= number)
                        stream_use_next_context(use, above, &lowest);
        }
        return lowest;
}

/* Notes for all uses up to `number` that the context's work was waited for. The caller has the lock. */
static void pass_context(struct deferred_frees *frees, uint64_t context, uint64_t number)
{
        struct stream_use *use;

        TAILQ_FOREACH (use, &frees->pending, pending_link) {
                if (use->number <= number)
                        stream_use_pass_context(use, context);
        }
}

void deferred_frees_wait(struct deferred_frees *frees, const struct cuda *cuda)
{
        uint64_t context = 0, number;

        pthread_mutex_lock(&frees->lock);
        number = frees->n_ever;
        while ((context = next_context(frees, context, number))) {
                int r;

                pthread_mutex_unlock(&frees->lock);
                r = stream_synchronize_context(cuda, context);
                pthread_mutex_lock(&frees->lock);
                if (!r)
                        pass_context(frees, context, number);
        }
        pthread_mutex_unlock(&frees->lock);
}
