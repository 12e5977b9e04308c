#include "client/streams/uses.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"
#include "client/streams/marks.h"

struct used_in {
        void *stream;
        struct stream_key key;
        bool is_context_wide; /* all streams of the context, instead of one */
        bool is_marked;
        struct marks marks; /* from the free on */
};

struct use {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        uint64_t context; /* whose round it waits for */
        uint64_t round;
        bool is_freed;
        uint32_t n_streams;
        uint32_t n_room;
        struct used_in *streams;
        UT_hash_handle hh;
};

static void add_unmarked(struct uses *uses, uint32_t n)
{
        atomic_fetch_add(&uses->n_unmarked, n);
        after_call_add(uses->after_call, n);
}

static void sub_unmarked(struct uses *uses, uint32_t n)
{
        atomic_fetch_sub(&uses->n_unmarked, n);
        after_call_sub(uses->after_call, n);
}

void uses_init(struct uses *uses, struct after_call *after_call)
{
        *uses = (struct uses){.after_call = after_call};
        pthread_mutex_init(&uses->lock, NULL);
}

static void use_free(struct use *use, const struct cuda *cuda)
{
        for (uint32_t i = 0; use->is_freed && i < use->n_streams; i++)
                marks_deinit(&use->streams[i].marks, cuda);
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

static struct use *use_new(const void *pointer, _Atomic uint32_t *n_uses)
{
        struct use *use = calloc(1, sizeof(*use));

        if (!use)
                return NULL;
        use->pointer = pointer;
        use->n_uses = n_uses;
        atomic_fetch_add(n_uses, 1);
        return use;
}

static void drop(const struct cuda *cuda, struct use *use)
{
        atomic_fetch_sub(use->n_uses, 1);
        use_free(use, cuda);
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
                        drop(NULL, use);
                        return -ENOMEM;
                }
        }
        *ret_use = use;
        return 0;
}

static bool is_same(const struct stream_key *one, const struct stream_key *other)
{
        return one->context == other->context && one->id == other->id;
}

static int add(struct use *use, const struct used_in *in)
{
        struct used_in *streams = use->streams;

        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (is_same(&streams[i].key, &in->key))
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
        streams[use->n_streams++] = *in;
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
                r = add(use, &in);
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

/* False: the stream captures, and is to be marked later; or the driver fails. */
static bool mark(const struct cuda *cuda, struct used_in *in)
{
        struct mark_place place = {.context = in->key.context,
                                   .stream = in->stream,
                                   .is_context_wide = in->is_context_wide,
                                   .number = 1};

        in->is_marked = marks_add(&in->marks, cuda, &place) == 0;
        return in->is_marked;
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

/* Marks every stream, where that is not done yet; the caller has the lock, or the use for itself. */
static void mark_all(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        for (uint32_t i = 0; i < use->n_streams; i++) {
                struct used_in *in = &use->streams[i];

                if (!in->is_marked && mark(cuda, in))
                        sub_unmarked(uses, 1);
        }
}

static bool is_over(struct uses *uses, struct streams *streams, struct use *use)
{
        bool is_lost, over = true;

        for (uint32_t i = 0; i < use->n_streams && over; i++) {
                struct used_in *in = &use->streams[i];

                (void)marks_poll(&in->marks, streams->cuda, UINT64_MAX);
                (void)marks_last(&in->marks, &is_lost);
                if (is_lost && in->is_marked) {
                        in->is_marked = false;
                        add_unmarked(uses, 1);
                }
                over = in->is_marked && !marks_first(&in->marks);
        }
        return over && (!use->round || use->round <= streams_done_rounds(streams, use->context));
}

/* It is another thread's from the moment that the lock is gone, which frees it when its work is over.
 * GPUMEM_E_NOT_OURS: another thread has freed it at the same time. */
static int park(struct uses *uses, struct use *use)
{
        int r;

        pthread_mutex_lock(&uses->lock);
        r = find(uses->parked, use->pointer) ? GPUMEM_E_NOT_OURS : add_to(&uses->parked, use);
        if (!r)
                atomic_fetch_add(&uses->n_parked, 1);
        pthread_mutex_unlock(&uses->lock);
        return r;
}

static int wait_for(const struct use *use, const struct cuda *cuda)
{
        int r = 0;

        if (use->round)
                r = stream_synchronize_context(cuda, use->context);
        for (uint32_t i = 0; i < use->n_streams && !r; i++)
                r = stream_synchronize_context(cuda, use->streams[i].key.context);
        return r;
}

static void forget_unmarked(struct uses *uses, const struct use *use)
{
        for (uint32_t i = 0; use->is_freed && i < use->n_streams; i++) {
                if (!use->streams[i].is_marked)
                        sub_unmarked(uses, 1);
        }
}

static void end(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        forget_unmarked(uses, use);
        drop(cuda, use);
}

/* The streams beside those that were recorded: the one that orders the free, and what GPUMEM_FENCE=context asks
 * for. */
static int add_own(struct use *use, const struct streams *streams, const struct use_end *how)
{
        struct used_in wide = {.key = {.context = how->context, .id = UINT64_MAX},
                               .is_context_wide = true};
        struct used_in own = {.key = {.context = how->context, .id = how->own_id}};
        int r = 0;

        if (how->own_stream) {
                own.stream = *how->own_stream;
                r = add(use, &own);
        }
        if (!r && how->context && streams->way == FENCE_CONTEXT)
                r = add(use, &wide);
        return r;
}

/* From here on no stream is added, and marks can be made. */
static void begin_end(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        for (uint32_t i = 0; i < use->n_streams; i++)
                marks_init(&use->streams[i].marks);
        add_unmarked(uses, use->n_streams);
        use->is_freed = true;
        mark_all(uses, cuda, use);
}

/* Marks can be made again later. */
static void undo_end(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        forget_unmarked(uses, use);
        for (uint32_t i = 0; use->is_freed && i < use->n_streams; i++) {
                marks_deinit(&use->streams[i].marks, cuda);
                use->streams[i].is_marked = false;
        }
        use->is_freed = false;
}

static int wait_out(struct uses *uses, const struct cuda *cuda, struct use *use)
{
        int r = wait_for(use, cuda);

        if (r) {
                undo_end(uses, cuda, use);
                if (put_back(uses, use) == 0)
                        return r;
        }
        end(uses, cuda, use);
        return r;
}

/* When there is no memory the work is waited for. */
static int park_or_wait(struct uses *uses, struct streams *streams, struct use *use,
                        const struct use_end *how, enum uses_end *ret_end)
{
        int r = add_own(use, streams, how);

        if (!r) {
                begin_end(uses, streams->cuda, use);
                streams_poll(streams);
                if (is_over(uses, streams, use)) {
                        end(uses, streams->cuda, use);
                        *ret_end = USES_OVER;
                        return 0;
                }
                r = park(uses, use);
                if (!r)
                        *ret_end = USES_PARKED;
                else if (r == GPUMEM_E_NOT_OURS)
                        end(uses, streams->cuda, use);
                if (r != -ENOMEM)
                        return r;
        }
        r = how->own_stream ? stream_synchronize(streams->cuda, *how->own_stream) : 0;
        if (!r)
                r = wait_out(uses, streams->cuda, use);
        else if (put_back(uses, use))
                end(uses, streams->cuda, use);
        if (!r)
                *ret_end = USES_OVER;
        return r;
}

static bool is_done(struct streams *streams, uint64_t context, uint64_t round)
{
        if (!round)
                return true;
        streams_poll(streams);
        return round <= streams_done_rounds(streams, context);
}

int uses_park(struct uses *uses, struct streams *streams, const struct use_end *how,
              enum uses_end *ret_end)
{
        struct use *use = take(uses, how->pointer);
        uint64_t round = streams_begin_round(streams, how->context);
        bool is_wide = how->context && streams->way == FENCE_CONTEXT && !how->own_stream;

        if (!use && !is_wide && is_done(streams, how->context, round)) {
                *ret_end = USES_NONE;
                return 0;
        }
        if (!use)
                use = use_new(how->pointer, how->n_uses);
        if (!use) {
                int r = stream_synchronize_context(streams->cuda, how->context);

                if (!r)
                        *ret_end = USES_OVER;
                return r;
        }
        use->context = how->context;
        use->round = round;
        return park_or_wait(uses, streams, use, how, ret_end);
}

int uses_wait(struct uses *uses, const struct cuda *cuda, const void *pointer)
{
        struct use *use = take(uses, pointer);

        return use ? wait_out(uses, cuda, use) : 0;
}

void uses_mark(struct uses *uses, const struct cuda *cuda)
{
        struct use *use, *next;

        pthread_mutex_lock(&uses->lock);
        HASH_ITER(hh, uses->parked, use, next)
        {
                mark_all(uses, cuda, use);
        }
        pthread_mutex_unlock(&uses->lock);
}

/* The caller has the lock. */
static struct use *find_over(struct uses *uses, struct streams *streams, bool wait)
{
        struct use *use, *next;

        HASH_ITER(hh, uses->parked, use, next)
        {
                if (is_over(uses, streams, use))
                        return use;
        }
        use = wait ? uses->parked : NULL;
        return use && wait_for(use, streams->cuda) == 0 ? use : NULL;
}

const void *uses_next_over(struct uses *uses, struct streams *streams, bool wait)
{
        const void *pointer = NULL;
        struct use *use;

        streams_poll(streams);
        pthread_mutex_lock(&uses->lock);
        use = find_over(uses, streams, wait);
        if (use) {
                HASH_DEL(uses->parked, use);
                atomic_fetch_sub(&uses->n_parked, 1);
        }
        pthread_mutex_unlock(&uses->lock);
        if (!use)
                return NULL;
        pointer = use->pointer;
        end(uses, streams->cuda, use);
        return pointer;
}
