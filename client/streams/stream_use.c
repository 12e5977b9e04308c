/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/stream_use.h"

#include <stdlib.h>

#include "base/err.h"
#include "gpumem.h"

void stream_use_free(struct stream_use *use, const struct cuda *cuda)
{
        for (uint32_t i = 0; use->is_freed && i < use->n_streams; i++)
                marks_deinit(&use->streams[i].marks, cuda);
        free(use->streams);
        free(use);
}

void stream_use_free_all(struct stream_use **table, const struct cuda *cuda)
{
        struct stream_use *use, *next;

        HASH_ITER(hh, *table, use, next)
        {
                HASH_DEL(*table, use);
                stream_use_free(use, cuda);
        }
}

struct stream_use *stream_use_new(const void *pointer, _Atomic uint32_t *n_uses)
{
        struct stream_use *use = calloc(1, sizeof(*use));

        if (!use)
                return NULL;
        use->pointer = pointer;
        use->n_uses = n_uses;
        atomic_fetch_add(n_uses, 1);
        return use;
}

void stream_use_drop(const struct cuda *cuda, struct stream_use *use)
{
        atomic_fetch_sub(use->n_uses, 1);
        stream_use_free(use, cuda);
}

static bool is_same(const struct stream_key *one, const struct stream_key *other)
{
        return one->context == other->context && one->id == other->id;
}

int stream_use_add(struct stream_use *use, const struct used_in *in)
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

/* Recorded streams live on, so that they can be marked later. */
static struct capture_gate *gate_of(struct streams *streams, const struct used_in *in)
{
        if (in->is_context_wide)
                return NULL;
        return in->is_own ? streams_gate_of(streams, &in->key, in->stream) : &streams->gate;
}

/* A stream whose context has ended is over, too. */
static int mark(struct streams *streams, struct used_in *in)
{
        struct mark_place place = {.context = in->key.context,
                                   .stream = in->stream,
                                   .is_context_wide = in->is_context_wide,
                                   .gate = gate_of(streams, in),
                                   .number = 1};
        int r = marks_add(&in->marks, streams->cuda, &place);

        if (r && r != GPUMEM_E_NO_CONTEXT)
                return r;
        in->state = r ? USED_OVER : USED_MARKED;
        return 0;
}

int stream_use_mark(struct streams *streams, struct stream_use *use)
{
        int r = 0;

        for (uint32_t i = 0; i < use->n_streams && !r; i++) {
                if (use->streams[i].state == USED_UNMARKED)
                        r = mark(streams, &use->streams[i]);
        }
        return r;
}

static bool is_passed(const struct cuda *cuda, struct used_in *in)
{
        if (in->state == USED_MARKED) {
                (void)marks_poll(&in->marks, cuda, UINT64_MAX);
                if (!marks_first(&in->marks))
                        in->state = USED_OVER;
        }
        return in->state == USED_OVER;
}

bool stream_use_are_done(struct streams *streams,
                         const struct stream_use_round rounds[STREAM_USE_CONTEXTS])
{
        for (unsigned i = 0; i < STREAM_USE_CONTEXTS; i++) {
                if (rounds[i].number &&
                    rounds[i].number > streams_done_rounds(streams, rounds[i].context))
                        return false;
        }
        return true;
}

/* Rounds first: their state is known without a driver call. */
bool stream_use_is_over(struct streams *streams, struct stream_use *use)
{
        if (!stream_use_are_done(streams, use->rounds))
                return false;
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (!is_passed(streams->cuda, &use->streams[i]))
                        return false;
        }
        return true;
}

bool stream_use_is_marked(const struct stream_use *use)
{
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (use->streams[i].state == USED_UNMARKED)
                        return false;
        }
        return true;
}

int stream_use_wait(const struct stream_use *use, const struct cuda *cuda)
{
        int r = 0;

        for (unsigned i = 0; i < STREAM_USE_CONTEXTS && !r; i++) {
                if (use->rounds[i].number)
                        r = stream_synchronize_context(cuda, use->rounds[i].context);
        }
        for (uint32_t i = 0; i < use->n_streams && !r; i++)
                r = stream_synchronize_context(cuda, use->streams[i].key.context);
        return r;
}

/* Adds the streams that were not recorded: the one that orders the free, and with GPUMEM_FENCE=context all of the
 * context. */
static int add_own(struct stream_use *use, const struct streams *streams,
                   const struct stream_use_end *how)
{
        struct used_in wide = {.key = {.id = UINT64_MAX}, .is_context_wide = true};
        struct used_in own = {.key = how->own};
        int r = 0;

        use->n_recorded = use->n_streams;
        if (how->own_stream) {
                own.stream = *how->own_stream;
                r = stream_use_add(use, &own);
        }
        for (uint32_t i = 0; how->own_stream && !r && i < use->n_streams; i++)
                use->streams[i].is_own = is_same(&use->streams[i].key, &how->own);
        for (unsigned i = 0; streams->way == FENCE_CONTEXT && !r && i < STREAM_USE_CONTEXTS; i++) {
                wide.key.context = how->contexts[i];
                if (wide.key.context)
                        r = stream_use_add(use, &wide);
        }
        return r;
}

/* The own stream is alive now, and perhaps not later. If it could not be marked, the use waits for its whole context,
 * which invalidates no capture. */
static int settle_own(struct streams *streams, struct stream_use *use)
{
        int r = 0;

        for (uint32_t i = 0; i < use->n_streams && !r; i++) {
                struct used_in *in = &use->streams[i];

                if (!in->is_own || mark(streams, in) == 0)
                        continue;
                r = stream_synchronize_context(streams->cuda, in->key.context);
                if (!r)
                        in->state = USED_OVER;
        }
        return r;
}

int stream_use_begin_end(struct stream_use *use, struct streams *streams,
                         const struct stream_use_end *how)
{
        int r = add_own(use, streams, how);

        if (r)
                return r;
        for (uint32_t i = 0; i < use->n_streams; i++)
                marks_init(&use->streams[i].marks);
        use->is_freed = true;
        r = settle_own(streams, use);
        if (!r)
                (void)stream_use_mark(streams, use);
        return r;
}

void stream_use_undo_end(struct stream_use *use, const struct cuda *cuda)
{
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (use->is_freed)
                        marks_deinit(&use->streams[i].marks, cuda);
                use->streams[i].state = USED_UNMARKED;
                use->streams[i].is_own = false;
        }
        use->is_freed = false;
        use->n_streams = use->n_recorded;
}

static void take_lower(uint64_t context, uint64_t above, uint64_t *lowest)
{
        if (context > above && (!*lowest || context < *lowest))
                *lowest = context;
}

void stream_use_next_context(const struct stream_use *use, uint64_t above, uint64_t *lowest)
{
        for (unsigned i = 0; i < STREAM_USE_CONTEXTS; i++) {
                if (use->rounds[i].number)
                        take_lower(use->rounds[i].context, above, lowest);
        }
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (use->streams[i].state != USED_OVER)
                        take_lower(use->streams[i].key.context, above, lowest);
        }
}

void stream_use_pass_context(struct stream_use *use, uint64_t context)
{
        for (unsigned i = 0; i < STREAM_USE_CONTEXTS; i++) {
                if (use->rounds[i].context == context)
                        use->rounds[i].number = 0;
        }
        for (uint32_t i = 0; i < use->n_streams; i++) {
                if (use->streams[i].key.context == context)
                        use->streams[i].state = USED_OVER;
        }
}
