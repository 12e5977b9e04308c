#include "daemon/policy/history_lanes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int lanes_init(struct lanes *lanes, uint32_t n_rows)
{
        size_t n = (size_t)n_rows + 1;

        *lanes = (struct lanes){
                .all_lanes = malloc(n * sizeof(*lanes->all_lanes)),
                .all_steps = malloc((n + 1) * sizeof(*lanes->all_steps)),
                .all_users = malloc(n * sizeof(*lanes->all_users)),
                .n_all = n_rows + 1,
                .by_rows = calloc(n, sizeof(*lanes->by_rows)),
        };
        if (!lanes->all_lanes || !lanes->all_steps || !lanes->all_users || !lanes->by_rows) {
                lanes_deinit(lanes);
                return -ENOMEM;
        }
        return 0;
}

void lanes_deinit(struct lanes *lanes)
{
        struct history_lane *lane, *next_lane;
        struct lane_user *user, *next_user;

        HASH_ITER(hh, lanes->lanes, lane, next_lane)
        HASH_DEL(lanes->lanes, lane);
        HASH_ITER(hh, lanes->users, user, next_user)
        HASH_DEL(lanes->users, user);
        free(lanes->all_lanes);
        free(lanes->all_steps);
        free(lanes->all_users);
        free(lanes->by_rows);
        *lanes = (struct lanes){.n_all = 0};
}

bool lane_is_nobodys(enum lane_kind kind)
{
        return kind == LANE_OF_NODE || kind == LANE_OF_LASTING;
}

static void make_key(const struct tenant_key *tenant, enum lane_kind kind, struct lane_key *ret_key)
{
        assert((tenant == NULL) == lane_is_nobodys(kind));
        memset(ret_key, 0, sizeof(*ret_key));
        if (tenant)
                ret_key->tenant = *tenant;
        ret_key->kind = kind;
}

struct history_lane *lanes_find(const struct lanes *lanes, const struct tenant_key *tenant,
                                enum lane_kind kind)
{
        struct history_lane *lane;
        struct lane_key key;

        make_key(tenant, kind, &key);
        HASH_FIND(hh, lanes->lanes, &key, sizeof(key), lane);
        return lane;
}

/* With as many rows as it has, it has a place among others. */
static void place_user(struct lanes *lanes, struct lane_user *user)
{
        LIST_INSERT_HEAD(&lanes->by_rows[user->n_rows], user, link);
        if (user->n_rows > lanes->most)
                lanes->most = user->n_rows;
        while (lanes->most && LIST_EMPTY(&lanes->by_rows[lanes->most]))
                lanes->most--;
}

/* Each of those that there are has a lane, or is about to. */
static struct lane_user *take_user(struct lanes *lanes)
{
        struct lane_user *user = LIST_FIRST(&lanes->unused_users);

        if (user) {
                LIST_REMOVE(user, link);
                return user;
        }
        assert(lanes->n_users_begun < lanes->n_all);
        return &lanes->all_users[lanes->n_users_begun++];
}

static struct lane_user *get_user(struct lanes *lanes, uint64_t id)
{
        struct lane_user *user;

        HASH_FIND(hh, lanes->users, &id, sizeof(id), user);
        if (user)
                return user;
        user = take_user(lanes);
        memset(user, 0, sizeof(*user));
        user->id = id;
        TAILQ_INIT(&user->steps);
        HASH_ADD(hh, lanes->users, id, sizeof(user->id), user);
        if (!user->hh.tbl) {
                LIST_INSERT_HEAD(&lanes->unused_users, user, link);
                return NULL;
        }
        place_user(lanes, user);
        return user;
}

static void end_user_if_unused(struct lanes *lanes, struct lane_user *user)
{
        if (user->n_lanes)
                return;
        assert(!user->n_rows && TAILQ_EMPTY(&user->steps));
        LIST_REMOVE(user, link);
        HASH_DEL(lanes->users, user);
        LIST_INSERT_HEAD(&lanes->unused_users, user, link);
}

/* Each of those that there are has a lane, but one that is about to lose its only one. */
static struct lane_step *take_step(struct lanes *lanes)
{
        struct lane_step *step = LIST_FIRST(&lanes->unused_steps);

        if (step) {
                LIST_REMOVE(step, unused_link);
                return step;
        }
        assert(lanes->n_steps_begun <= lanes->n_all);
        return &lanes->all_steps[lanes->n_steps_begun++];
}

static struct lane_step *make_step(struct lanes *lanes, uint32_t length)
{
        struct lane_step *step = take_step(lanes);

        *step = (struct lane_step){.length = length};
        return step;
}

static void leave_step(struct lanes *lanes, struct history_lane *lane)
{
        struct lane_step *step = lane->step;

        LIST_REMOVE(lane, link);
        if (LIST_EMPTY(&step->lanes)) {
                TAILQ_REMOVE(&lane->user->steps, step, link);
                LIST_INSERT_HEAD(&lanes->unused_steps, step, unused_link);
        }
        lane->step = NULL;
}

static void enter_step(struct history_lane *lane, struct lane_step *step)
{
        assert(step->length == lane->length);
        lane->step = step;
        LIST_INSERT_HEAD(&step->lanes, lane, link);
}

/* The first step of the user is of lanes without rows, or one is made. */
static void enter_first(struct lanes *lanes, struct history_lane *lane)
{
        struct lane_step *step = TAILQ_FIRST(&lane->user->steps);

        if (!step || step->length) {
                step = make_step(lanes, 0);
                TAILQ_INSERT_HEAD(&lane->user->steps, step, link);
        }
        enter_step(lane, step);
}

static void count(struct lanes *lanes, struct history_lane *lane, int32_t by)
{
        struct lane_user *user = lane->user;

        LIST_REMOVE(user, link);
        user->n_rows += (uint32_t)by;
        place_user(lanes, user);
        lane->length += (uint32_t)by;
}

void lanes_grow(struct lanes *lanes, struct history_lane *lane)
{
        struct lane_step *step = lane->step, *next = TAILQ_NEXT(step, link);

        lane->n_rows++;
        if (lane->key.kind == LANE_OF_LASTING)
                return;
        count(lanes, lane, 1);
        if (!next || next->length != lane->length) {
                next = make_step(lanes, lane->length);
                TAILQ_INSERT_AFTER(&lane->user->steps, step, next, link);
        }
        leave_step(lanes, lane);
        enter_step(lane, next);
}

void lanes_shrink(struct lanes *lanes, struct history_lane *lane)
{
        struct lane_step *step = lane->step, *before = TAILQ_PREV(step, lane_steps, link);

        assert(lane->key.kind != LANE_OF_LASTING && lane->n_rows);
        lane->n_rows--;
        count(lanes, lane, -1);
        if (!before || before->length != lane->length) {
                before = make_step(lanes, lane->length);
                TAILQ_INSERT_BEFORE(step, before, link);
        }
        leave_step(lanes, lane);
        enter_step(lane, before);
}

/* Each of those that there are has a row, or is about to. */
static struct history_lane *take_lane(struct lanes *lanes)
{
        struct history_lane *lane = LIST_FIRST(&lanes->unused_lanes);

        if (lane) {
                LIST_REMOVE(lane, link);
                return lane;
        }
        assert(lanes->n_lanes_begun < lanes->n_all);
        return &lanes->all_lanes[lanes->n_lanes_begun++];
}

struct history_lane *lanes_make(struct lanes *lanes, const struct tenant_key *tenant,
                                enum lane_kind kind)
{
        struct lane_user *user = get_user(lanes, tenant ? tenant->uid : LANES_OF_NODE);
        struct history_lane *lane;

        if (!user)
                return NULL;
        lane = take_lane(lanes);
        memset(lane, 0, sizeof(*lane));
        make_key(tenant, kind, &lane->key);
        TAILQ_INIT(&lane->rows);
        HASH_ADD(hh, lanes->lanes, key, sizeof(lane->key), lane);
        if (!lane->hh.tbl) {
                LIST_INSERT_HEAD(&lanes->unused_lanes, lane, link);
                end_user_if_unused(lanes, user);
                return NULL;
        }
        lane->user = user;
        user->n_lanes++;
        enter_first(lanes, lane);
        return lane;
}

void lanes_end(struct lanes *lanes, struct history_lane *lane)
{
        struct lane_user *user = lane->user;

        assert(!lane->n_rows && !lane->length);
        leave_step(lanes, lane);
        HASH_DEL(lanes->lanes, lane);
        LIST_INSERT_HEAD(&lanes->unused_lanes, lane, link);
        user->n_lanes--;
        end_user_if_unused(lanes, user);
}

struct history_lane *lanes_longest(const struct lanes *lanes)
{
        const struct lane_user *user = LIST_FIRST(&lanes->by_rows[lanes->most]);

        return LIST_FIRST(&TAILQ_LAST(&user->steps, lane_steps)->lanes);
}

static void check_user(const struct lanes *lanes, const struct lane_user *user)
{
        const struct lane_user *as_many;
        const struct lane_step *step;
        const struct history_lane *lane;
        uint32_t n_rows = 0, n_lanes = 0;
        uint64_t before = 0;
        bool has_place = false;

        TAILQ_FOREACH (step, &user->steps, link) {
                assert(!LIST_EMPTY(&step->lanes) && step->length + UINT64_C(1) > before);
                before = step->length + UINT64_C(1);
                LIST_FOREACH (lane, &step->lanes, link) {
                        assert(lane->step == step && lane->length == step->length);
                        assert(lane->user == user);
                        n_rows += lane->length;
                        n_lanes++;
                }
        }
        assert(n_lanes && n_lanes == user->n_lanes && n_rows == user->n_rows);
        assert(n_rows <= lanes->most);
        LIST_FOREACH (as_many, &lanes->by_rows[n_rows], link)
                has_place = has_place || as_many == user;
        assert(has_place);
}

void lanes_check(const struct lanes *lanes)
{
        const struct history_lane *lane;
        const struct lane_user *user;
        uint32_t n_lanes = 0;

        for (user = lanes->users; user; user = user->hh.next) {
                check_user(lanes, user);
                n_lanes += user->n_lanes;
        }
        for (lane = lanes->lanes; lane; lane = lane->hh.next) {
                assert(lane->length == (lane->key.kind == LANE_OF_LASTING ? 0 : lane->n_rows));
                assert(lane->user->id == (lane_is_nobodys((enum lane_kind)lane->key.kind)
                                                  ? LANES_OF_NODE
                                                  : lane->key.tenant.uid));
                n_lanes--;
        }
        assert(!n_lanes);
        assert(!lanes->most || !LIST_EMPTY(&lanes->by_rows[lanes->most]));
}
