/* The lanes of a history: whose they are, how long, and which of them is the next to lose a row. That is the longest
 * one of the user who has most rows: a user that has many tenants, be it containers or connections, pushes out no
 * other user's, and among these none that has less than another. The node counts as a user that has fewer than it has:
 * with a user namespace's uids, or a container's, somebody may be as many users as there are rows. Part of history.c. Pure; no memory is asked for
 * but at the beginning, and by the tables.
 *
 * Those of a user that are as long stand in a step; so a lane that grows or shrinks by a row finds its place at
 * once, however many there are. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "daemon/policy/public_types.h"

struct history_row;
struct lane_step;
struct lane_user;

/* What lasts is the node's, too; it is not pushed out. */
enum lane_kind { LANE_OF_USE, LANE_OF_TROUBLE, LANE_OF_NODE, LANE_OF_LASTING };

/* All bytes of it are compared. */
struct lane_key {
        struct tenant_key tenant;
        uint32_t kind;
};
static_assert(sizeof(struct lane_key) == sizeof(struct tenant_key) + sizeof(uint32_t),
              "a key has no padding");

struct history_lane {
        struct lane_key key;
        uint32_t n_rows;
        uint32_t length; /* of these, that it may be asked for */
        uint64_t n_lost; /* history.c's, as are the rows themselves */
        TAILQ_HEAD(lane_rows, history_row) rows;
        struct lane_user *user;
        struct lane_step *step;
        LIST_ENTRY(history_lane) link; /* in the step, or among those without use */
        UT_hash_handle hh;
};

LIST_HEAD(lane_list, history_lane);

struct lane_step {
        uint32_t length;
        struct lane_list lanes;
        TAILQ_ENTRY(lane_step) link; /* the shortest is first */
        LIST_ENTRY(lane_step) unused_link;
};

struct lane_user {
        uint64_t id; /* its uid, or LANES_OF_NODE */
        uint32_t n_rows;
        uint32_t n_lanes;
        TAILQ_HEAD(lane_steps, lane_step) steps; /* none is empty */
        LIST_ENTRY(lane_user) link; /* among those that may be asked for as many rows */
        UT_hash_handle hh;
};

#define LANES_OF_NODE UINT64_MAX

/* That part of the rows is the node's when it needs it, however many users there are. */
#define LANES_NODE_SHARE 8

LIST_HEAD(lane_users, lane_user);

/* They are there from the beginning, one more of each than rows: for who is about to get one; and a step for
 * the lane that changes it. Those that were never taken are not touched: of them there is no memory in use. */
struct lanes {
        struct history_lane *all_lanes;
        struct lane_step *all_steps;
        struct lane_user *all_users;
        uint32_t n_all;     /* lanes, and users */
        uint32_t n_of_node; /* rows that nobody else has of it */
        uint32_t n_lanes_begun;
        uint32_t n_steps_begun;
        uint32_t n_users_begun;
        struct lane_list unused_lanes;
        LIST_HEAD(, lane_step) unused_steps;
        struct lane_users unused_users;
        struct history_lane *lanes; /* table by key */
        struct lane_user *users;    /* table by id */
        struct lane_users *by_rows;
        uint32_t most; /* rows that a user may be asked for */
};

int lanes_init(struct lanes *lanes, uint32_t n_rows);
void lanes_deinit(struct lanes *lanes);

bool lane_is_nobodys(enum lane_kind kind);

/* Without a tenant if it is nobody's. NULL: there is none. */
struct history_lane *lanes_find(const struct lanes *lanes, const struct tenant_key *tenant,
                                enum lane_kind kind);

/* One that there is not, without rows. NULL: a table has no memory for it. */
struct history_lane *lanes_make(struct lanes *lanes, const struct tenant_key *tenant,
                                enum lane_kind kind);

/* It has no rows. */
void lanes_end(struct lanes *lanes, struct history_lane *lane);

/* By a row. */
void lanes_grow(struct lanes *lanes, struct history_lane *lane);
void lanes_shrink(struct lanes *lanes, struct history_lane *lane);

/* It has a row, if any lane has one that does not last. */
struct history_lane *lanes_longest(const struct lanes *lanes);

void lanes_check(const struct lanes *lanes);
