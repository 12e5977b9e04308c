/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/report/event_history.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

/* Lasting events are the node's, too; they are not pushed out. */
enum lane_kind { LANE_OF_USE, LANE_OF_TROUBLE, LANE_OF_NODE, LANE_OF_LASTING };

/* Compared as bytes. */
struct lane_key {
        struct tenant_key tenant; /* zeroes for events of the node */
        uint32_t kind;
};
static_assert(sizeof(struct lane_key) == sizeof(struct tenant_key) + sizeof(uint32_t),
              "a key has no padding");

/* A sequence of rows that push each other out. It is never empty, except while it is made. */
struct event_history_lane {
        struct lane_key key;
        uint32_t n_rows;
        uint64_t n_lost; /* events that were pushed out */
        TAILQ_HEAD(lane_rows, event_history_row) rows;
        struct lane_owner *owner;
        LIST_ENTRY(event_history_lane) link; /* in the owner's list, or in the unused list */
        UT_hash_handle hh;
};

/* An owner with the lanes of all its tenants, or the node. */
struct lane_owner {
        uint64_t id;     /* its number, or OWNER_NODE */
        uint32_t n_rows; /* without the lasting ones */
        LIST_HEAD(owner_lanes, event_history_lane) lanes;
        LIST_ENTRY(lane_owner) link; /* in the unused list */
        UT_hash_handle hh;
};

#define OWNER_NODE UINT64_MAX

/* The node may use this part of the rows when it needs it: one person may have as many uids as there are
 * rows, through a user namespace. */
#define NODE_PART 8

/* Rows, lanes and owners are allocated at the start, as many as there can be, so that an event needs no
 * memory except in the hash tables. Entries that were never used are not touched, so they take no memory. */
struct event_history {
        struct event_history_row *all_rows;
        struct event_history_lane
                *all_lanes;            /* each has a row, except the one that is being made */
        struct lane_owner *all_owners; /* each has a lane */
        uint32_t n_all;                /* rows */
        uint32_t n_rows_begun, n_lanes_begun, n_owners_begun;
        struct owner_lanes unused_lanes;
        LIST_HEAD(lane_owners, lane_owner) unused_owners;
        uint64_t end;
        TAILQ_HEAD(history_rows, event_history_row) rows; /* in use */
        struct history_rows unused;
        struct event_history_lane *lanes; /* table by key */
        struct lane_owner *owners;        /* table by id */
        struct event_history_lane *last;  /* of the last event, or NULL */
        uint64_t n_lost;
        uint64_t n_lost_of_gone; /* of lanes that no longer exist */
};

int event_history_new(uint32_t n_rows, uint64_t first_number, struct event_history **ret_history)
{
        struct event_history *history = calloc(1, sizeof(*history));

        assert(n_rows && first_number);
        if (!history)
                return -ENOMEM;
        history->all_rows = malloc(n_rows * sizeof(*history->all_rows));
        history->all_lanes = malloc((n_rows + UINT64_C(1)) * sizeof(*history->all_lanes));
        history->all_owners = malloc((n_rows + UINT64_C(1)) * sizeof(*history->all_owners));
        if (!history->all_rows || !history->all_lanes || !history->all_owners) {
                (void)event_history_free(history);
                return -ENOMEM;
        }
        history->n_all = n_rows;
        history->end = first_number;
        TAILQ_INIT(&history->rows);
        TAILQ_INIT(&history->unused);
        *ret_history = history;
        return 0;
}

static struct event_history_lane *take_lane(struct event_history *history)
{
        struct event_history_lane *lane = LIST_FIRST(&history->unused_lanes);

        if (lane)
                LIST_REMOVE(lane, link);
        else
                lane = &history->all_lanes[history->n_lanes_begun++];
        memset(lane, 0, sizeof(*lane));
        return lane;
}

static struct lane_owner *take_owner(struct event_history *history)
{
        struct lane_owner *owner = LIST_FIRST(&history->unused_owners);

        if (owner)
                LIST_REMOVE(owner, link);
        else
                owner = &history->all_owners[history->n_owners_begun++];
        memset(owner, 0, sizeof(*owner));
        return owner;
}

static void end_lane(struct event_history *history, struct event_history_lane *lane)
{
        struct lane_owner *owner = lane->owner;

        if (history->last == lane)
                history->last = NULL;
        history->n_lost_of_gone += lane->n_lost;
        LIST_REMOVE(lane, link);
        HASH_DEL(history->lanes, lane);
        LIST_INSERT_HEAD(&history->unused_lanes, lane, link);
        if (!LIST_EMPTY(&owner->lanes))
                return;
        HASH_DEL(history->owners, owner);
        LIST_INSERT_HEAD(&history->unused_owners, owner, link);
}

struct event_history *event_history_free(struct event_history *history)
{
        struct event_history_lane *lane, *next;

        if (!history)
                return NULL;
        HASH_ITER(hh, history->lanes, lane, next)
        end_lane(history, lane);
        free(history->all_owners);
        free(history->all_lanes);
        free(history->all_rows);
        free(history);
        return NULL;
}

static bool is_nobodys(const struct event_history_lane *lane)
{
        return lane->owner->id == OWNER_NODE;
}

static struct lane_key key_of(const struct tenant_key *tenant, enum lane_kind kind)
{
        struct lane_key key;

        assert((tenant == NULL) == (kind == LANE_OF_NODE || kind == LANE_OF_LASTING));
        memset(&key, 0, sizeof(key));
        if (tenant)
                key.tenant = *tenant;
        key.kind = kind;
        return key;
}

/* It is usually the lane of the last event, or of the client's last one. */
static struct event_history_lane *find_lane(const struct event_history *history,
                                            const struct tenant_key *tenant, enum lane_kind kind,
                                            const struct noted_event *event)
{
        struct event_history_lane *lane = event && event->own && *event->own ? (*event->own)->lane
                                                                             : history->last;
        struct lane_key key;

        if (lane && tenant && lane->key.kind == kind &&
            memcmp(&lane->key.tenant, tenant, sizeof(*tenant)) == 0)
                return lane;
        key = key_of(tenant, kind);
        HASH_FIND(hh, history->lanes, &key, sizeof(key), lane);
        return lane;
}

/* A new owner has no lane yet. */
static struct lane_owner *get_owner(struct event_history *history, uint64_t id)
{
        struct lane_owner *owner;

        HASH_FIND(hh, history->owners, &id, sizeof(id), owner);
        if (owner)
                return owner;
        owner = take_owner(history);
        owner->id = id;
        HASH_ADD(hh, history->owners, id, sizeof(owner->id), owner);
        if (owner->hh.tbl)
                return owner;
        LIST_INSERT_HEAD(&history->unused_owners, owner, link);
        return NULL;
}

/* Makes an empty lane. NULL: out of memory. */
static struct event_history_lane *make_lane(struct event_history *history,
                                            const struct tenant_key *tenant, uint64_t owner_id,
                                            enum lane_kind kind)
{
        struct lane_owner *owner = get_owner(history, owner_id);
        struct event_history_lane *lane;

        if (!owner)
                return NULL;
        lane = take_lane(history);
        lane->key = key_of(tenant, kind);
        lane->owner = owner;
        TAILQ_INIT(&lane->rows);
        HASH_ADD(hh, history->lanes, key, sizeof(lane->key), lane);
        if (lane->hh.tbl) {
                LIST_INSERT_HEAD(&owner->lanes, lane, link);
                return lane;
        }
        LIST_INSERT_HEAD(&history->unused_lanes, lane, link);
        if (LIST_EMPTY(&owner->lanes)) {
                HASH_DEL(history->owners, owner);
                LIST_INSERT_HEAD(&history->unused_owners, owner, link);
        }
        return NULL;
}

/* How many rows the owner could lose. */
static uint32_t weight(const struct event_history *history, const struct lane_owner *owner)
{
        uint32_t n_kept = owner->id == OWNER_NODE ? history->n_all / NODE_PART : 0;

        return owner->n_rows > n_kept ? owner->n_rows - n_kept : 0;
}

/* The longest lane of the owner with the most rows. So a user with many tenants (containers, uids in them, connections)
 * pushes out no other user's rows, and among its tenants none with fewer rows than another. Of owners with
 * equally many rows the newest loses one, so that newcomers push each other out. All owners are visited:
 * even with one row for each user this is cheaper than the connection that caused the event. */
static struct event_history_lane *find_longest(const struct event_history *history)
{
        struct lane_owner *owner, *most = history->owners;
        struct event_history_lane *lane, *longest = NULL;

        for (owner = history->owners; owner; owner = owner->hh.next) {
                if (weight(history, owner) >= weight(history, most))
                        most = owner;
        }
        LIST_FOREACH (lane, &most->lanes, link) {
                if (lane->key.kind != LANE_OF_LASTING &&
                    (!longest || lane->n_rows > longest->n_rows))
                        longest = lane;
        }
        assert(longest && longest->n_rows);
        return longest;
}

/* A device that does not clear memory stays so while the daemon lives: one row for each pool, at most half
 * of the rows. */
static bool is_lasting(const struct event_history *history, const struct noted_event *event)
{
        return event->what == LISTED_EVENT_CANARY && event->pool < history->n_all / 2;
}

static enum lane_kind lane_of(const struct event_history *history, const struct noted_event *event)
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

static void count_rows(struct event_history_lane *lane, int by)
{
        lane->n_rows += (uint32_t)by;
        if (lane->key.kind != LANE_OF_LASTING)
                lane->owner->n_rows += (uint32_t)by;
}

/* `asker` is not freed, even if it becomes empty. */
static void lose_oldest(struct event_history *history, const struct event_history_lane *asker)
{
        struct event_history_lane *lane = find_longest(history);
        struct event_history_row *row = TAILQ_FIRST(&lane->rows);

        lane->n_lost += row->times;
        history->n_lost += row->times;
        TAILQ_REMOVE(&lane->rows, row, lane_link);
        TAILQ_REMOVE(&history->rows, row, link);
        TAILQ_INSERT_TAIL(&history->unused, row, link);
        row->lane = NULL;
        row->number = 0; /* a list that has found it sees that it is another one's by now */
        count_rows(lane, -1);
        if (!lane->n_rows && lane != asker)
                end_lane(history, lane);
}

static struct event_history_row *take_row(struct event_history *history,
                                          const struct event_history_lane *asker)
{
        struct event_history_row *row;

        if (TAILQ_EMPTY(&history->unused) && history->n_rows_begun < history->n_all)
                return &history->all_rows[history->n_rows_begun++];
        if (TAILQ_EMPTY(&history->unused))
                lose_oldest(history, asker);
        row = TAILQ_FIRST(&history->unused);
        TAILQ_REMOVE(&history->unused, row, link);
        return row;
}

/* A process may have several clients, and those of processes without a pid have the same one, 0. */
static bool is_alike(const struct event_history_row *row, const struct noted_event *event)
{
        return row->what == event->what && row->client == event->client && row->pid == event->pid &&
               row->pool == event->pool && row->code == event->code && row->reason == event->reason;
}

static struct event_history_row *unless_old(struct event_history_row *row, uint64_t now_ns)
{
        return now_ns < row->first_ns + EVENT_HISTORY_ALIKE_NS ? row : NULL;
}

/* State changes of the node and acts of administrators are not merged. */
static struct event_history_row *find_alike(const struct event_history_lane *lane,
                                            const struct noted_event *event, uint64_t now_ns)
{
        struct event_history_row *row = TAILQ_LAST(&lane->rows, lane_rows);
        bool lasts = lane->key.kind == LANE_OF_LASTING;

        if (lane->key.kind == LANE_OF_NODE || event->what == LISTED_EVENT_LIMITED ||
            event->what == LISTED_EVENT_FREED_ALL)
                return NULL;
        if (event->own && *event->own && (*event->own)->lane == lane &&
            is_alike(*event->own, event))
                return unless_old(*event->own, now_ns);
        for (unsigned n = 0; row && (lasts || n < EVENT_HISTORY_SCANS); n++) {
                if (is_alike(row, event))
                        return lasts ? row : unless_old(row, now_ns);
                row = TAILQ_PREV(row, lane_rows, lane_link);
        }
        return NULL;
}

static struct event_history_row *begin_row(struct event_history *history,
                                           struct event_history_lane *lane,
                                           const struct noted_event *event, uint64_t now_ns)
{
        struct event_history_row *row = take_row(history, lane);

        *row = (struct event_history_row){.first = history->end,
                                          .first_ns = now_ns,
                                          .what = event->what,
                                          .client = event->client,
                                          .pid = event->pid,
                                          .pool = event->pool,
                                          .code = event->code,
                                          .reason = event->reason,
                                          .lane = lane,
                                          .placed = history->end};
        TAILQ_INSERT_TAIL(&row->lane->rows, row, lane_link);
        TAILQ_INSERT_TAIL(&history->rows, row, link);
        count_rows(lane, 1);
        return row;
}

/* Puts it behind all others. */
static void place_again(struct event_history *history, struct event_history_row *row)
{
        TAILQ_REMOVE(&row->lane->rows, row, lane_link);
        TAILQ_REMOVE(&history->rows, row, link);
        TAILQ_INSERT_TAIL(&row->lane->rows, row, lane_link);
        TAILQ_INSERT_TAIL(&history->rows, row, link);
        row->placed = row->number;
}

/* Text beyond the field's size is cut. */
static void put_text(char *field, size_t n_field, const char *text)
{
        size_t n = text ? strnlen(text, n_field - 1) : 0;

        if (n)
                memcpy(field, text, n);
        field[n] = '\0';
}

/* The sum of what different requests asked for would mean nothing. */
static void add_refused_bytes(struct event_history_row *row, uint64_t n_bytes)
{
        if (row->times == 1 || n_bytes < row->n_least_bytes)
                row->n_least_bytes = n_bytes;
        if (n_bytes > row->n_most_bytes)
                row->n_most_bytes = n_bytes;
        row->n_bytes = n_bytes;
}

static void add_texts(struct event_history_row *row, const struct noted_event *event)
{
        put_text(row->program, sizeof(row->program), event->program);
        row->has_facts = event->refused;
        if (event->refused)
                row->refused = *event->refused;
        else
                put_text(row->text, sizeof(row->text), event->text);
}

static void add_event(struct event_history *history, struct event_history_row *row,
                      const struct noted_event *event, uint64_t now_ns)
{
        row->number = history->end;
        row->last_ns = now_ns;
        row->times += row->times < UINT32_MAX;
        if (event->what == LISTED_EVENT_REFUSED)
                add_refused_bytes(row, event->n_bytes);
        else
                row->n_bytes += event->n_bytes;
        if (row->number - row->placed >= EVENT_HISTORY_NEAR)
                place_again(history, row);
}

static void note_in(struct event_history *history, struct event_history_lane *lane,
                    const struct noted_event *event, uint64_t now_ns)
{
        struct event_history_row *row = find_alike(lane, event, now_ns);
        /* Such a row has its texts. */
        bool is_own = row && event->own && row == *event->own;

        if (!row)
                row = begin_row(history, lane, event, now_ns);
        add_event(history, row, event, now_ns);
        if (!is_own)
                add_texts(row, event);
        history->last = lane;
        if (event->own)
                *event->own = row;
}

void event_history_note(struct event_history *history, const struct tenant_key *key,
                        const struct noted_event *event, uint64_t now_ns)
{
        enum lane_kind kind = lane_of(history, event);
        struct event_history_lane *lane = find_lane(history, key, kind, event);

        /* The clock may be set back; the numbers still increase. */
        if (event->number > history->end)
                history->end = event->number;
        if (!lane)
                lane = make_lane(history, key, key ? event->owner : OWNER_NODE, kind);
        if (lane) {
                note_in(history, lane, event, now_ns);
        } else {
                history->n_lost++;
                history->n_lost_of_gone++;
        }
        history->end++;
}

const struct event_history_row *event_history_last(const struct event_history *history)
{
        return TAILQ_LAST(&history->rows, history_rows);
}

const struct event_history_row *event_history_before(const struct event_history_row *row)
{
        return TAILQ_PREV(row, history_rows, link);
}

uint32_t event_history_n_places(const struct event_history *history)
{
        return history->n_rows_begun;
}

const struct event_history_row *event_history_at(const struct event_history *history, uint32_t at)
{
        const struct event_history_row *row = &history->all_rows[at];

        return row->lane ? row : NULL;
}

const struct tenant_key *event_history_whose(const struct event_history_row *row)
{
        return is_nobodys(row->lane) ? NULL : &row->lane->key.tenant;
}

uint64_t event_history_end(const struct event_history *history)
{
        return history->end;
}

static uint64_t lost_in(const struct event_history *history, const struct tenant_key *key,
                        enum lane_kind kind)
{
        const struct event_history_lane *lane = find_lane(history, key, kind, NULL);

        return lane ? lane->n_lost : 0;
}

uint64_t event_history_lost(const struct event_history *history, const struct tenant_key *key)
{
        if (!key)
                return history->n_lost;
        return history->n_lost_of_gone + lost_in(history, NULL, LANE_OF_NODE) +
               lost_in(history, key, LANE_OF_USE) + lost_in(history, key, LANE_OF_TROUBLE);
}

static void check_lane(const struct event_history_lane *lane)
{
        const struct event_history_row *row;
        uint64_t before = 0;
        uint32_t n = 0;

        assert(!is_nobodys(lane) || !lane->key.tenant.uid);
        TAILQ_FOREACH (row, &lane->rows, lane_link) {
                assert(row->lane == lane && row->placed > before);
                before = row->placed;
                n++;
        }
        assert(n && n == lane->n_rows);
}

/* Returns the number of rows in its lanes. */
static uint32_t check_owner(const struct lane_owner *owner, uint64_t *n_lost)
{
        const struct event_history_lane *lane;
        uint32_t n = 0, n_lasting = 0;

        LIST_FOREACH (lane, &owner->lanes, link) {
                assert(lane->owner == owner);
                check_lane(lane);
                n += lane->n_rows;
                n_lasting += lane->key.kind == LANE_OF_LASTING ? lane->n_rows : 0;
                *n_lost += lane->n_lost;
        }
        assert(n && n - n_lasting == owner->n_rows);
        return n;
}

void event_history_check(const struct event_history *history)
{
        const struct lane_owner *owner;
        const struct event_history_row *row;
        uint64_t before = 0, n_lost = history->n_lost_of_gone;
        uint32_t n = 0, n_in_lanes = 0, n_unused = 0;

        TAILQ_FOREACH (row, &history->rows, link) {
                assert(row->placed > before && row->number < history->end && row->times);
                assert(row->placed <= row->number && event_history_may_reach(row, row->number));
                assert(row->first <= row->number && row->first_ns <= row->last_ns);
                before = row->placed;
                n++;
        }
        TAILQ_FOREACH (row, &history->unused, link)
                n_unused++;
        for (owner = history->owners; owner; owner = owner->hh.next)
                n_in_lanes += check_owner(owner, &n_lost);
        assert(n == n_in_lanes && n + n_unused == history->n_rows_begun);
        assert(history->n_rows_begun <= history->n_all);
        assert(n_lost == history->n_lost);
}
