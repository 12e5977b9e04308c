#include "daemon/policy/history.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/policy/history_lanes.h"

/* Rows are there from the beginning, as many as there may be, but those that were never taken are not touched:
 * of them there is no memory in use. */
struct history {
        struct history_row *all_rows;
        uint32_t n_all;
        uint32_t n_rows_begun;
        uint64_t end;
        TAILQ_HEAD(history_rows, history_row) rows; /* those that are taken */
        struct history_rows unused;
        struct lanes lanes;        /* none is empty */
        struct history_lane *last; /* that was found, or NULL */
        uint64_t n_lost;
        uint64_t n_lost_of_gone; /* of lanes that there are no more */
};

/* Memory that is not cleared is so for as long as the daemon lives: a row a pool, of half of the rows at most. */
static bool is_lasting(const struct history *history, const struct history_event *event)
{
        return event->what == LISTED_EVENT_CANARY && event->pool < history->n_all / 2;
}

static enum lane_kind lane_of(const struct history *history, const struct history_event *event)
{
        static const uint8_t kinds[LISTED_EVENT_N] = {
#define OF_USE                                LANE_OF_USE
#define OF_TROUBLE                            LANE_OF_TROUBLE
#define OF_NODE                               LANE_OF_NODE
#define EVENT(NAME, name, number, lane, text) [number] = (lane),
#include "proto/event_kinds.def"
#undef EVENT
#undef OF_USE
#undef OF_TROUBLE
#undef OF_NODE
        };

        if (is_lasting(history, event))
                return LANE_OF_LASTING;
        return (enum lane_kind)kinds[event->what];
}

int history_new(uint32_t n_rows, uint64_t first_number, struct history **ret_history)
{
        struct history *history = calloc(1, sizeof(*history));

        assert(n_rows && first_number);
        if (!history)
                return -ENOMEM;
        history->all_rows = malloc(n_rows * sizeof(*history->all_rows));
        if (!history->all_rows || lanes_init(&history->lanes, n_rows)) {
                history_free(history);
                return -ENOMEM;
        }
        history->n_all = n_rows;
        history->end = first_number;
        TAILQ_INIT(&history->rows);
        TAILQ_INIT(&history->unused);
        *ret_history = history;
        return 0;
}

struct history *history_free(struct history *history)
{
        if (!history)
                return NULL;
        lanes_deinit(&history->lanes);
        free(history->all_rows);
        free(history);
        return NULL;
}

/* Grants come one after another: mostly it is the lane of the last event. */
static bool is_last(const struct history *history, const struct tenant_key *tenant,
                    enum lane_kind kind)
{
        const struct history_lane *last = history->last;

        return last && last->key.kind == kind &&
               (!tenant || memcmp(&last->key.tenant, tenant, sizeof(*tenant)) == 0);
}

static struct history_lane *find_lane(const struct history *history,
                                      const struct tenant_key *tenant, enum lane_kind kind)
{
        return is_last(history, tenant, kind) ? history->last
                                              : lanes_find(&history->lanes, tenant, kind);
}

static void end_lane(struct history *history, struct history_lane *lane)
{
        if (history->last == lane)
                history->last = NULL;
        history->n_lost_of_gone += lane->n_lost;
        lanes_end(&history->lanes, lane);
}

static void lose_oldest(struct history *history, struct history_lane *lane)
{
        struct history_row *row = TAILQ_FIRST(&lane->rows);

        lane->n_lost += row->times;
        history->n_lost += row->times;
        TAILQ_REMOVE(&lane->rows, row, lane_link);
        TAILQ_REMOVE(&history->rows, row, link);
        TAILQ_INSERT_TAIL(&history->unused, row, link);
        lanes_shrink(&history->lanes, lane);
}

/* `asker` stays, though it be empty. */
static void make_room(struct history *history, const struct history_lane *asker)
{
        struct history_lane *lane = lanes_longest(&history->lanes);

        lose_oldest(history, lane);
        if (!lane->n_rows && lane != asker)
                end_lane(history, lane);
}

static struct history_row *take_row(struct history *history, const struct history_lane *asker)
{
        struct history_row *row;

        if (TAILQ_EMPTY(&history->unused) && history->n_rows_begun < history->n_all)
                return &history->all_rows[history->n_rows_begun++];
        if (TAILQ_EMPTY(&history->unused))
                make_room(history, asker);
        row = TAILQ_FIRST(&history->unused);
        TAILQ_REMOVE(&history->unused, row, link);
        return row;
}

static bool is_alike(const struct history_row *row, const struct history_event *event)
{
        return row->what == event->what && row->pid == event->pid && row->pool == event->pool &&
               row->code == event->code && row->reason == event->reason;
}

/* Of states of the node, and of what administrators do, each one counts: they stay apart. */
static struct history_row *find_alike(const struct history_lane *lane,
                                      const struct history_event *event, uint64_t now_ns)
{
        struct history_row *row = TAILQ_LAST(&lane->rows, lane_rows);
        bool lasts = lane->key.kind == LANE_OF_LASTING;

        if (lane->key.kind == LANE_OF_NODE || event->what == LISTED_EVENT_LIMITED ||
            event->what == LISTED_EVENT_FREED_ALL)
                return NULL;
        for (unsigned n = 0; row && (lasts || n < HISTORY_LOOKS); n++) {
                if (is_alike(row, event))
                        return lasts || now_ns < row->first_ns + HISTORY_ALIKE_NS ? row : NULL;
                row = TAILQ_PREV(row, lane_rows, lane_link);
        }
        return NULL;
}

static struct history_row *begin_row(struct history *history, struct history_lane *lane,
                                     const struct history_event *event, uint64_t now_ns)
{
        struct history_row *row = take_row(history, lane);

        *row = (struct history_row){.first = history->end,
                                    .first_ns = now_ns,
                                    .what = event->what,
                                    .pid = event->pid,
                                    .pool = event->pool,
                                    .code = event->code,
                                    .reason = event->reason,
                                    .lane = lane};
        lanes_grow(&history->lanes, lane);
        return row;
}

static void take_out(struct history *history, struct history_row *row)
{
        TAILQ_REMOVE(&row->lane->rows, row, lane_link);
        TAILQ_REMOVE(&history->rows, row, link);
}

/* What does not fit is cut. */
static void put_text(char *field, size_t n_field, const char *text)
{
        size_t n = text ? strnlen(text, n_field - 1) : 0;

        if (n)
                memcpy(field, text, n);
        field[n] = '\0';
}

static void add_event(struct history *history, struct history_row *row,
                      const struct history_event *event, uint64_t now_ns)
{
        row->number = history->end;
        row->last_ns = now_ns;
        row->times += row->times < UINT32_MAX;
        row->n_bytes = event->n_bytes + (event->what == LISTED_EVENT_REFUSED ? 0 : row->n_bytes);
        put_text(row->program, sizeof(row->program), event->program);
        put_text(row->text, sizeof(row->text), event->text);
        TAILQ_INSERT_TAIL(&row->lane->rows, row, lane_link);
        TAILQ_INSERT_TAIL(&history->rows, row, link);
}

static void note_in(struct history *history, struct history_lane *lane,
                    const struct history_event *event, uint64_t now_ns)
{
        struct history_row *row = find_alike(lane, event, now_ns);

        if (row)
                take_out(history, row);
        else
                row = begin_row(history, lane, event, now_ns);
        add_event(history, row, event, now_ns);
        history->last = lane;
}

void history_note(struct history *history, const struct tenant_key *key,
                  const struct history_event *event, uint64_t now_ns)
{
        enum lane_kind kind = lane_of(history, event);
        struct history_lane *lane = find_lane(history, key, kind);

        /* Clocks may be set back; numbers go on. */
        if (event->number > history->end)
                history->end = event->number;
        if (!lane)
                lane = lanes_make(&history->lanes, key, kind);
        if (lane) {
                note_in(history, lane, event, now_ns);
        } else {
                history->n_lost++;
                history->n_lost_of_gone++;
        }
        history->end++;
}

const struct history_row *history_find(const struct history *history, uint64_t number)
{
        const struct history_row *row = TAILQ_LAST(&history->rows, history_rows);
        const struct history_row *first = TAILQ_FIRST(&history->rows), *found = NULL;

        if (first && first->number >= number)
                return first;
        /* Who follows asks for the last ones. */
        for (; row && row->number >= number; row = TAILQ_PREV(row, history_rows, link))
                found = row;
        return found;
}

const struct history_row *history_next(const struct history_row *row)
{
        return TAILQ_NEXT(row, link);
}

const struct tenant_key *history_whose(const struct history_row *row)
{
        return lane_is_nobodys((enum lane_kind)row->lane->key.kind) ? NULL : &row->lane->key.tenant;
}

uint64_t history_end(const struct history *history)
{
        return history->end;
}

static uint64_t lost_in(const struct history *history, const struct tenant_key *key,
                        enum lane_kind kind)
{
        const struct history_lane *lane = find_lane(history, key, kind);

        return lane ? lane->n_lost : 0;
}

uint64_t history_lost(const struct history *history, const struct tenant_key *key)
{
        if (!key)
                return history->n_lost;
        return history->n_lost_of_gone + lost_in(history, NULL, LANE_OF_NODE) +
               lost_in(history, key, LANE_OF_USE) + lost_in(history, key, LANE_OF_TROUBLE);
}

static uint32_t check_lane(const struct history_lane *lane)
{
        const struct history_row *row;
        uint64_t before = 0;
        uint32_t n = 0;

        TAILQ_FOREACH (row, &lane->rows, lane_link) {
                assert(row->lane == lane && row->number > before);
                before = row->number;
                n++;
        }
        assert(n && n == lane->n_rows);
        return n;
}

void history_check(const struct history *history)
{
        const struct history_lane *lane;
        const struct history_row *row;
        uint64_t before = 0, n_lost = history->n_lost_of_gone;
        uint32_t n = 0, n_in_lanes = 0, n_unused = 0;

        TAILQ_FOREACH (row, &history->rows, link) {
                assert(row->number > before && row->number < history->end && row->times);
                assert(row->first <= row->number && row->first_ns <= row->last_ns);
                before = row->number;
                n++;
        }
        TAILQ_FOREACH (row, &history->unused, link)
                n_unused++;
        for (lane = history->lanes.lanes; lane; lane = lane->hh.next) {
                n_in_lanes += check_lane(lane);
                n_lost += lane->n_lost;
        }
        assert(n == n_in_lanes && n + n_unused == history->n_rows_begun);
        assert(history->n_rows_begun <= history->n_all);
        assert(n_lost == history->n_lost);
        lanes_check(&history->lanes);
}
