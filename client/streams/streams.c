/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/table.h"
#include "client/runtime/last_error.h"
#include "client/streams/marks.h"
#include "driver/context.h"
#include "gpumem.h"

struct marked {
        void *stream;
        uint64_t id;
        unsigned n_registered; /* 0: the stream may be destroyed; its marks are pending */
        struct marks marks;
        LIST_ENTRY(marked) link;
};
LIST_HEAD(marked_list, marked);

/* The most rounds that may be pending; each is an event in every registered stream. If a stream is busy for long, the
 * last round is begun again instead of another one, since no call may follow that could begin that later. */
#define ROUNDS_MAX 64

/* Kept until the client ends, so that the numbers of its rounds grow. */
struct stream_set {
        uint64_t context;
        uint64_t context_id; /* 0: the driver does not tell */
        struct marked_list all;
        uint64_t n_begun; /* rounds */
        uint64_t n_done;
        bool is_owed; /* round n_begun + 1 */
        /* The stream that holds it up; NULL: the driver or an announced capture does. */
        struct marked *captures;
        UT_hash_handle hh;
};

static const char *const way_names[] = {
        [FENCE_STREAMS] = "streams", [FENCE_CONTEXT] = "context", [FENCE_OWN] = "own"};

static int refuse(const char *text, const char *allowed)
{
        last_error_set_bad_setting(GPUMEM_E_BAD_FENCE, "GPUMEM_FENCE", text, allowed);
        return GPUMEM_E_BAD_FENCE;
}

static int read_way(enum fence_way *ret_way)
{
        const char *text = secure_getenv("GPUMEM_FENCE");

        if (!text || !*text) {
                *ret_way = FENCE_STREAMS;
                return 0;
        }
        for (unsigned i = 0; i < sizeof(way_names) / sizeof(way_names[0]); i++) {
                if (strcmp(text, way_names[i]) == 0) {
                        *ret_way = (enum fence_way)i;
                        return 0;
                }
        }
        return refuse(text, "choice; allowed: streams, context, own");
}

int streams_init(struct streams *streams, struct after_call *after_call)
{
        *streams = (struct streams){.after_call = after_call};
        pthread_mutex_init(&streams->lock, NULL);
        capture_gate_init(&streams->gate);
        return read_way(&streams->way);
}

int streams_open(struct streams *streams, const struct cuda *cuda)
{
        if (cuda && streams->way == FENCE_CONTEXT && !cuda->cuCtxRecordEvent)
                return refuse(way_names[FENCE_CONTEXT],
                              "choice with this driver: it lacks cuCtxRecordEvent, which came with "
                              "CUDA 12.5; allowed: streams, own");
        streams->cuda = cuda;
        return 0;
}

static void free_marked(struct streams *streams, struct marked *marked)
{
        atomic_fetch_sub(&streams->n_counted, 1);
        LIST_REMOVE(marked, link);
        marks_deinit(&marked->marks, streams->cuda);
        free(marked);
}

static void set_owed(struct streams *streams, struct stream_set *set, bool is_owed,
                     struct marked *captures)
{
        if (is_owed && !set->is_owed) {
                atomic_fetch_add(&streams->n_owed, 1);
                after_call_add(streams->after_call, 1);
        }
        if (!is_owed && set->is_owed) {
                atomic_fetch_sub(&streams->n_owed, 1);
                after_call_sub(streams->after_call, 1);
        }
        set->is_owed = is_owed;
        set->captures = captures;
}

static void empty(struct streams *streams, struct stream_set *set)
{
        while (!LIST_EMPTY(&set->all))
                free_marked(streams, LIST_FIRST(&set->all));
        set_owed(streams, set, false, NULL);
}

void streams_deinit(struct streams *streams)
{
        struct stream_set *set, *next;

        HASH_ITER(hh, streams->sets, set, next)
        {
                empty(streams, set);
                HASH_DEL(streams->sets, set);
                free(set);
        }
        capture_gate_deinit(&streams->gate);
        pthread_mutex_destroy(&streams->lock);
}

/* Finds the context's set. If the context has ended, so have its streams, and all rounds are over; another context
 * may have its handle later. This is not noticed if the driver does not tell the context's id. The caller has the
 * lock. */
static struct stream_set *find(struct streams *streams, uint64_t context)
{
        struct stream_set *set;
        uint64_t id;

        HASH_FIND(hh, streams->sets, &context, sizeof(context), set);
        if (!set)
                return NULL;
        id = set->context_id;
        if (context_has_ended(streams->cuda, context, &id) ||
            (set->context_id && id != set->context_id)) {
                empty(streams, set);
                set->n_done = ++set->n_begun;
        }
        set->context_id = id;
        return set;
}

/* The caller has the lock. */
static int get(struct streams *streams, uint64_t context, struct stream_set **ret_set)
{
        struct stream_set *set = find(streams, context);
        uint64_t id = 0;

        if (!set) {
                set = calloc(1, sizeof(*set));
                if (!set)
                        return -ENOMEM;
                (void)context_has_ended(streams->cuda, context, &id);
                *set = (struct stream_set){.context = context, .context_id = id};
                HASH_ADD(hh, streams->sets, context, sizeof(set->context), set);
                if (!set->hh.tbl) {
                        free(set);
                        return -ENOMEM;
                }
        }
        *ret_set = set;
        return 0;
}

static int add(struct streams *streams, struct stream_set *set, void *stream, uint64_t id)
{
        struct marked *marked = calloc(1, sizeof(*marked));

        if (!marked)
                return -ENOMEM;
        *marked = (struct marked){.stream = stream, .id = id, .n_registered = 1};
        marks_init(&marked->marks);
        LIST_INSERT_HEAD(&set->all, marked, link);
        atomic_fetch_add(&streams->n_counted, 1);
        return 0;
}

static struct marked *find_stream(const struct stream_set *set, uint64_t id)
{
        struct marked *marked;

        LIST_FOREACH (marked, &set->all, link) {
                if (marked->n_registered && marked->id == id)
                        return marked;
        }
        return NULL;
}

int streams_register(struct streams *streams, void *stream, const struct stream_key *key)
{
        struct stream_set *set;
        struct marked *marked;
        int r;

        pthread_mutex_lock(&streams->lock);
        r = get(streams, key->context, &set);
        marked = r ? NULL : find_stream(set, key->id);
        if (marked)
                marked->n_registered++;
        else if (!r)
                r = add(streams, set, stream, key->id);
        pthread_mutex_unlock(&streams->lock);
        return r;
}

bool streams_find(struct streams *streams, const struct stream_key *key, void **ret_stream)
{
        const struct marked *marked = NULL;
        const struct stream_set *set;

        if (!atomic_load_explicit(&streams->n_counted, memory_order_relaxed))
                return false;
        pthread_mutex_lock(&streams->lock);
        set = find(streams, key->context);
        if (set)
                marked = find_stream(set, key->id);
        if (marked)
                *ret_stream = marked->stream;
        pthread_mutex_unlock(&streams->lock);
        return marked;
}

bool streams_cover(struct streams *streams, const struct stream_key *key)
{
        void *stream;

        return streams->way == FENCE_CONTEXT ||
               (streams->way == FENCE_STREAMS && streams_find(streams, key, &stream));
}

struct capture_gate *streams_gate_of(struct streams *streams, const struct stream_key *key,
                                     const void *stream)
{
        bool may_be_captured = streams->way != FENCE_CONTEXT &&
                               (stream_is_legacy(stream) || streams_cover(streams, key));

        return may_be_captured ? &streams->gate : NULL;
}

/* A round is over when none of its marks is pending, in order. The caller has the lock. */
static void count_done(struct stream_set *set)
{
        uint64_t n_done = set->n_begun, first;
        const struct marked *marked;

        LIST_FOREACH (marked, &set->all, link) {
                first = marks_first(&marked->marks);
                if (first && first - 1 < n_done)
                        n_done = first - 1;
        }
        set->n_done = n_done;
}

static bool is_full(const struct stream_set *set)
{
        return set->n_begun - set->n_done >= ROUNDS_MAX;
}

/* The stream is about to be marked for that round again: one mark of a round counts. */
static void lose_mark(struct marked *marked, uint64_t number)
{
        bool is_lost;

        if (marks_last(&marked->marks, &is_lost) == number)
                marks_lose_last(&marked->marks);
}

/* Marks the stream for the next round, or for the last one if that is begun again, so that no later round is over
 * before its present work. An announced capture is no reason not to: the caller has the stream, and does not capture
 * in it. */
static int part_with(struct streams *streams, struct stream_set *set, struct marked *marked)
{
        struct mark_place place = {.context = set->context,
                                   .stream = marked->stream,
                                   .number = set->n_begun + !is_full(set)};
        int r = 0;

        if (streams->way == FENCE_STREAMS) {
                lose_mark(marked, place.number);
                r = marks_add(&marked->marks, streams->cuda, &place);
        }
        if (r) {
                set_owed(streams, set, true, marked);
                return r;
        }
        marked->n_registered = 0;
        if (set->captures == marked)
                set->captures = NULL;
        return 0;
}

int streams_unregister(struct streams *streams, const struct stream_key *key)
{
        struct stream_set *set;
        struct marked *marked;
        int r = 0;

        pthread_mutex_lock(&streams->lock);
        set = find(streams, key->context);
        marked = set ? find_stream(set, key->id) : NULL;
        if (!marked)
                r = GPUMEM_E_NOT_REGISTERED;
        else if (marked->n_registered > 1)
                marked->n_registered--;
        else
                r = part_with(streams, set, marked);
        pthread_mutex_unlock(&streams->lock);
        return r;
}

/* A set whose streams are to be marked, for which round, and the stream that could not be. */
struct attempt {
        struct stream_set *set;
        uint64_t number;
        struct marked *failed;
};

/* Checks all streams before anything is recorded, so that a round that a capture holds up costs little. */
static int check_all(const struct cuda *cuda, struct attempt *attempt)
{
        struct marked *marked;
        int r = 0;

        LIST_FOREACH (marked, &attempt->set->all, link) {
                if (marked->n_registered)
                        r = stream_check(cuda, marked->stream);
                if (r) {
                        attempt->failed = marked;
                        return r;
                }
        }
        return 0;
}

/* None of the marks of that round counts: the next attempt records them again. */
static void lose(struct stream_set *set, uint64_t number)
{
        struct marked *marked;

        LIST_FOREACH (marked, &set->all, link) {
                if (marked->n_registered)
                        lose_mark(marked, number);
        }
}

static int mark_all(const struct cuda *cuda, void *argument)
{
        struct attempt *attempt = argument;
        struct stream_set *set = attempt->set;
        struct marked *marked;
        int r = check_all(cuda, attempt);

        if (r)
                return r;
        lose(set, attempt->number);
        LIST_FOREACH (marked, &set->all, link) {
                struct mark_place place = {.context = set->context,
                                           .context_id = set->context_id,
                                           .stream = marked->stream,
                                           .is_seen = true,
                                           .number = attempt->number};

                if (!marked->n_registered)
                        continue;
                r = marks_add(&marked->marks, cuda, &place);
                if (r) {
                        attempt->failed = marked;
                        lose(set, attempt->number);
                        return r;
                }
        }
        return 0;
}

static int mark_all_inside(struct streams *streams, struct attempt *attempt)
{
        int r;

        if (!capture_gate_enter(&streams->gate))
                return GPUMEM_E_CAPTURES;
        r = context_run(streams->cuda, attempt->set->context, mark_all, attempt);
        capture_gate_leave(&streams->gate);
        return r;
}

/* Finds marks that a capture caught: their round is owed again. The caller has the lock. */
static void poll_set(struct streams *streams, struct stream_set *set)
{
        struct marked *marked, *next;

        for (marked = LIST_FIRST(&set->all); marked; marked = next) {
                bool is_lost;

                next = LIST_NEXT(marked, link);
                (void)marks_poll(&marked->marks, streams->cuda, UINT64_MAX);
                (void)marks_last(&marked->marks, &is_lost);
                if (!marked->n_registered && !marks_first(&marked->marks))
                        free_marked(streams, marked);
                else if (marked->n_registered && is_lost && !set->is_owed)
                        set_owed(streams, set, true, marked);
        }
        count_done(set);
}

/* Returns the number of the round that covers all present work. If many rounds are pending, that is the last one,
 * begun again. If that fails, its marks are lost, and the next round takes its place. So a round that is owed has a
 * number of its own, for which frees wait. The caller has the lock. */
static uint64_t begin_round(struct streams *streams, struct stream_set *set)
{
        struct attempt attempt = {.set = set};
        int r;

        if (is_full(set))
                poll_set(streams, set);
        attempt.number = set->n_begun + (!is_full(set) || set->is_owed);
        r = mark_all_inside(streams, &attempt);
        set_owed(streams, set, r != 0, attempt.failed);
        if (r)
                return set->n_begun + 1;
        set->n_begun = attempt.number;
        return set->n_begun;
}

uint64_t streams_begin_round(struct streams *streams, uint64_t context)
{
        struct stream_set *set;
        uint64_t round = 0;

        if (!streams->cuda || !context || streams->way != FENCE_STREAMS)
                return 0;
        pthread_mutex_lock(&streams->lock);
        set = find(streams, context);
        if (set && !LIST_EMPTY(&set->all))
                round = begin_round(streams, set);
        pthread_mutex_unlock(&streams->lock);
        return round;
}

uint64_t streams_begin_round_with(struct streams *streams, const struct stream_key *key)
{
        struct stream_set *set;
        uint64_t round = 0;

        if (!streams->cuda || !key->context || streams->way != FENCE_STREAMS)
                return 0;
        pthread_mutex_lock(&streams->lock);
        set = find(streams, key->context);
        if (set && find_stream(set, key->id))
                round = begin_round(streams, set);
        pthread_mutex_unlock(&streams->lock);
        return round;
}

uint64_t streams_done_rounds(struct streams *streams, uint64_t context)
{
        const struct stream_set *set;
        uint64_t n_done = UINT64_MAX;

        pthread_mutex_lock(&streams->lock);
        HASH_FIND(hh, streams->sets, &context, sizeof(context), set);
        if (set)
                n_done = set->n_done;
        pthread_mutex_unlock(&streams->lock);
        return n_done;
}

static bool is_any_left(const struct stream_set *set)
{
        const struct marked *marked;

        LIST_FOREACH (marked, &set->all, link) {
                if (!marked->n_registered)
                        return true;
        }
        return false;
}

void streams_poll(struct streams *streams)
{
        struct stream_set *set, *next;

        if (!streams->cuda)
                return;
        pthread_mutex_lock(&streams->lock);
        HASH_ITER(hh, streams->sets, set, next)
        {
                if (set->n_done < set->n_begun || is_any_left(set))
                        poll_set(streams, set);
        }
        pthread_mutex_unlock(&streams->lock);
}

static bool count_in(struct streams *streams, uint64_t context)
{
        const struct stream_set *set;
        bool any;

        pthread_mutex_lock(&streams->lock);
        set = streams->way == FENCE_STREAMS ? find(streams, context) : NULL;
        any = set && !LIST_EMPTY(&set->all);
        pthread_mutex_unlock(&streams->lock);
        return any || streams->way == FENCE_CONTEXT;
}

int streams_wait(struct streams *streams, uint64_t context, void *const *stream)
{
        if (stream && !count_in(streams, context))
                return stream_synchronize(streams->cuda, *stream);
        return stream_synchronize_context(streams->cuda, context);
}

int streams_wait_others(struct streams *streams, uint64_t context)
{
        return count_in(streams, context) ? stream_synchronize_context(streams->cuda, context) : 0;
}

/* Asks the stream that captured last time first, since programs make many calls while they capture. The caller has
 * the lock. */
static void pay(struct streams *streams, struct stream_set *set)
{
        const struct marked *captures = set->captures;

        if (captures && stream_is_created(captures->stream) &&
            stream_check(streams->cuda, captures->stream) == GPUMEM_E_UNSUPPORTED)
                return;
        (void)begin_round(streams, set);
}

void streams_pay(struct streams *streams, bool waits)
{
        struct stream_set *set, *next;

        if (waits)
                pthread_mutex_lock(&streams->lock);
        else if (pthread_mutex_trylock(&streams->lock))
                return;
        HASH_ITER(hh, streams->sets, set, next)
        {
                /* find() notices that the context has ended */
                if (set->is_owed && find(streams, set->context)->is_owed)
                        pay(streams, set);
        }
        pthread_mutex_unlock(&streams->lock);
}
