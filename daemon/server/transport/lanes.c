/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/lanes.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/server/transport/lane.h"

/* For all lanes together, at the end. */
#define PATIENCE_MS 1000

int lanes_new(unsigned n_links_max, struct lanes **ret_lanes)
{
        struct lanes *lanes = calloc(1, sizeof(*lanes));

        if (!lanes)
                return -ENOMEM;
        lanes->n_links_max = n_links_max;
        *ret_lanes = lanes;
        return 0;
}

void lanes_set_closer(struct lanes *lanes, struct fd_closer *closer)
{
        lanes->closer = closer;
}

/* A lane that was left behind counts its links still. */
struct lanes *lanes_free(struct lanes *lanes)
{
        uint64_t until_ns = clock_now_ns() + PATIENCE_MS * NS_PER_MS;

        if (!lanes)
                return NULL;
        for (unsigned i = 0; i < SLOW_USERS_MAX; i++) {
                if (lanes->each[i])
                        lane_stop(lanes->each[i]);
        }
        for (unsigned i = 0; i < SLOW_USERS_MAX; i++)
                lanes->each[i] = lane_free(lanes->each[i], until_ns);
        if (!abandoned_threads_any())
                free(lanes);
        return NULL;
}

uint64_t lanes_add_up(struct lanes *lanes, uint64_t owner, uint64_t step, uint64_t n_ns)
{
        uint64_t sum_ns;

        if (lanes->calls.owner != owner || lanes->calls.step != step)
                lanes->calls.n_ns = 0;
        lanes->calls.owner = owner;
        lanes->calls.step = step;
        sum_ns = lanes->calls.n_ns += n_ns;
        if (!slow_users_suspect(sum_ns))
                return 0;
        lanes->calls.n_ns = 0;
        return sum_ns;
}

void lanes_note(struct lanes *lanes, uint64_t owner, uint64_t n_ns, uint64_t now_ns)
{
        (void)slow_users_note(&lanes->users, owner, n_ns, now_ns);
}

/* A user stays slow while its lane finds it so. */
bool lanes_are_for(struct lanes *lanes, uint64_t owner, uint64_t now_ns)
{
        int place = slow_users_find(&lanes->users, owner);

        if (place < 0)
                return false;
        if (lanes->each[place])
                slow_users_renew(&lanes->users, place, lane_slow_ns(lanes->each[place]));
        return slow_users_is_slow(&lanes->users, place, now_ns);
}

static int find_lane(struct lanes *lanes, uint64_t owner, struct lane **ret_lane)
{
        struct lane **lane = &lanes->each[slow_users_find(&lanes->users, owner)];
        int r = *lane ? 0 : lane_new(lanes->closer, &lanes->n_links, lane);

        if (!r)
                *ret_lane = *lane;
        return r;
}

/* Half of all is for what is to be closed, which passes: sockets alone never make lanes full. */
static bool may_take(const struct lanes *lanes, const struct lane *lane)
{
        unsigned n_all = atomic_load(&lanes->n_links), n_max = lanes->n_links_max / 2;

        return n_all < n_max && lane_n_links(lane) < n_max - n_all;
}

int lanes_take(struct lanes *lanes, uint64_t owner, int client_fd, int *ret_fd)
{
        struct lane *lane;
        int r = find_lane(lanes, owner, &lane);

        if (!r && !may_take(lanes, lane))
                r = -EMFILE;
        return r ? r : lane_take(lane, client_fd, ret_fd);
}

int lanes_close(struct lanes *lanes, uint64_t owner, int take_fd)
{
        struct lane *lane;
        int r = find_lane(lanes, owner, &lane);

        return r ? r : lane_close(lane, take_fd);
}

bool lanes_are_full(const struct lanes *lanes)
{
        return atomic_load(&lanes->n_links) >= lanes->n_links_max;
}
