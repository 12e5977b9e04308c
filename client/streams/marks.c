/* SPDX-License-Identifier: Apache-2.0 */
#include "client/streams/marks.h"

#include <errno.h>
#include <stdlib.h>

#include "driver/context.h"
#include "driver/event.h"
#include "driver/stream.h"
#include "gpumem.h"

struct mark {
        uint64_t first; /* the first number that it stands for */
        uint64_t number;
        uint64_t round;
        bool is_lost;
        bool is_round_only;
        struct work_event event;
        TAILQ_ENTRY(mark) link;
};

void marks_init(struct marks *marks)
{
        marks->n_pending = 0;
        TAILQ_INIT(&marks->pending);
        TAILQ_INIT(&marks->spare);
}

static void free_list(struct mark_list *list, const struct cuda *cuda)
{
        struct mark *mark;

        while ((mark = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, mark, link);
                event_free(cuda, &mark->event);
                free(mark);
        }
}

void marks_deinit(struct marks *marks, const struct cuda *cuda)
{
        free_list(&marks->pending, cuda);
        free_list(&marks->spare, cuda);
        marks->n_pending = 0;
}

static void put_spare(struct marks *marks, struct mark *mark)
{
        TAILQ_INSERT_HEAD(&marks->spare, mark, link);
}

/* Takes a mark to record: the last one if it is lost or there are too many, else a new one. */
static struct mark *take_one(struct marks *marks)
{
        struct mark *mark = TAILQ_LAST(&marks->pending, mark_list);

        if (mark && (mark->is_lost || marks->n_pending == MARKS_MAX)) {
                TAILQ_REMOVE(&marks->pending, mark, link);
                marks->n_pending--;
                return mark;
        }
        mark = TAILQ_FIRST(&marks->spare);
        if (!mark)
                return calloc(1, sizeof(*mark));
        TAILQ_REMOVE(&marks->spare, mark, link);
        mark->number = mark->first = 0;
        return mark;
}

static void put_last(struct marks *marks, struct mark *mark)
{
        TAILQ_INSERT_TAIL(&marks->pending, mark, link);
        marks->n_pending++;
}

/* A mark that was pending stays pending without an event, so that its number is not forgotten. */
static void fail(struct marks *marks, const struct cuda *cuda, struct mark *mark)
{
        /* The event's context may be gone. */
        event_free(cuda, &mark->event);
        mark->is_lost = true;
        if (mark->number)
                put_last(marks, mark);
        else
                put_spare(marks, mark);
}

static int check(const struct cuda *cuda, const struct mark_place *place)
{
        int r = place->is_context_wide || place->is_round_only ? 0
                                                               : stream_check(cuda, place->stream);

        return r == GPUMEM_E_UNSUPPORTED ? GPUMEM_E_CAPTURES : r;
}

static int record(const struct cuda *cuda, const struct mark_place *place, struct work_event *event)
{
        if (place->is_round_only)
                return 0;
        if (place->is_context_wide)
                return event_record_all(cuda, place->context, event);
        if (place->is_seen)
                return event_record_here(cuda, place->context, place->context_id, place->stream,
                                         event);
        return event_record(cuda, place->context, place->stream, event);
}

struct adding {
        struct marks *marks;
        const struct mark_place *place;
};

/* A capture that began and ended between the two checks may have caught the event. It is safe to query the event now,
 * and the stream is still alive, so that the mark can be recorded in it again. */
static int check_caught(const struct cuda *cuda, const struct mark *mark)
{
        if (mark->is_round_only)
                return 0;
        return event_ask(cuda, &mark->event) == EVENT_LOST ? GPUMEM_E_CAPTURES : 0;
}

/* Checks before and after the record, since another thread may begin a capture in between. The context is current: it
 * decides which stream a default stream is. */
static int add(const struct cuda *cuda, void *argument)
{
        const struct adding *adding = argument;
        const struct mark_place *place = adding->place;
        struct marks *marks = adding->marks;
        struct mark *mark;
        int r = place->is_seen ? 0 : check(cuda, place);

        if (r)
                return r;
        mark = take_one(marks);
        if (!mark)
                return -ENOMEM;
        r = record(cuda, place, &mark->event);
        if (r) {
                fail(marks, cuda, mark);
                return r;
        }
        mark->number = place->number;
        mark->first = mark->first ? mark->first : place->number;
        mark->round = place->round;
        mark->is_round_only = place->is_round_only;
        r = check(cuda, place);
        if (!r && !place->is_seen)
                r = check_caught(cuda, mark);
        mark->is_lost = r != 0;
        put_last(marks, mark);
        return r;
}

static int add_inside(struct adding *adding, const struct cuda *cuda)
{
        const struct mark_place *place = adding->place;

        return place->is_seen ? add(cuda, adding) : context_run(cuda, place->context, add, adding);
}

int marks_add(struct marks *marks, const struct cuda *cuda, const struct mark_place *place)
{
        struct adding adding = {.marks = marks, .place = place};
        int r;

        if (!place->gate)
                return add_inside(&adding, cuda);
        if (!capture_gate_enter(place->gate))
                return GPUMEM_E_CAPTURES;
        r = add_inside(&adding, cuda);
        capture_gate_leave(place->gate);
        return r;
}

void marks_lose_last(struct marks *marks)
{
        struct mark *last = TAILQ_LAST(&marks->pending, mark_list);

        if (last)
                last->is_lost = true;
}

void marks_pass(struct marks *marks, uint64_t number)
{
        struct mark *mark;

        while ((mark = TAILQ_FIRST(&marks->pending)) && mark->number <= number) {
                TAILQ_REMOVE(&marks->pending, mark, link);
                marks->n_pending--;
                put_spare(marks, mark);
        }
}

static enum event_state ask(struct mark *mark, const struct cuda *cuda, uint64_t n_done_rounds)
{
        enum event_state state = EVENT_PENDING;

        if (mark->is_lost)
                return EVENT_LOST;
        if (mark->round <= n_done_rounds)
                state = mark->is_round_only ? EVENT_OVER : event_ask(cuda, &mark->event);
        mark->is_lost = state == EVENT_LOST;
        return state;
}

/* Asks for the last mark first: most often it is over, and then all are. */
uint64_t marks_poll(struct marks *marks, const struct cuda *cuda, uint64_t n_done_rounds)
{
        struct mark *mark = TAILQ_LAST(&marks->pending, mark_list);
        uint64_t number = 0;

        if (mark && ask(mark, cuda, n_done_rounds) == EVENT_OVER)
                number = mark->number;
        TAILQ_FOREACH (mark, &marks->pending, link) {
                enum event_state state;

                if (number >= mark->number || mark == TAILQ_LAST(&marks->pending, mark_list))
                        break;
                state = ask(mark, cuda, n_done_rounds);
                if (state == EVENT_OVER)
                        number = mark->number;
                else if (state == EVENT_PENDING)
                        break;
        }
        marks_pass(marks, number);
        return number;
}

uint64_t marks_first(const struct marks *marks)
{
        const struct mark *first = TAILQ_FIRST(&marks->pending);

        return first ? first->first : 0;
}

uint64_t marks_last(const struct marks *marks, bool *ret_is_lost)
{
        const struct mark *last = TAILQ_LAST(&marks->pending, mark_list);

        *ret_is_lost = last && last->is_lost;
        return last ? last->number : 0;
}
