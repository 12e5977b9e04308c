/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/slow_users.h"

int slow_users_find(const struct slow_users *users, uint64_t owner)
{
        for (unsigned i = 0; i < users->n; i++) {
                if (users->each[i].owner == owner)
                        return (int)i;
        }
        return -1;
}

void slow_users_renew(struct slow_users *users, int place, uint64_t slow_ns)
{
        if (slow_ns > users->each[place].slow_ns)
                users->each[place].slow_ns = slow_ns;
}

bool slow_users_is_slow(const struct slow_users *users, int place, uint64_t now_ns)
{
        return now_ns < users->each[place].slow_ns + SLOW_USER_REST_NS;
}

static struct slow_user *find_oldest(struct slow_users *users)
{
        struct slow_user *oldest = &users->each[0];

        for (unsigned i = 1; i < users->n; i++) {
                if (users->each[i].slow_ns < oldest->slow_ns)
                        oldest = &users->each[i];
        }
        return oldest;
}

/* Its own from before, an unused one, or the one that was slow the longest ago. */
static struct slow_user *find_place(struct slow_users *users, uint64_t owner)
{
        int place = slow_users_find(users, owner);

        if (place >= 0)
                return &users->each[place];
        return users->n < SLOW_USERS_MAX ? &users->each[users->n++] : find_oldest(users);
}

/* The owner's, or the one in its row that was not added to for the longest time. */
static struct slow_sum *find_sum(struct slow_users *users, uint64_t owner)
{
        struct slow_sum *row = users->sums[owner % SLOW_USERS_ROWS], *oldest = row;

        for (unsigned i = 0; i < SLOW_USERS_EACH; i++) {
                if (row[i].owner == owner)
                        return &row[i];
                if (row[i].since_ns < oldest->since_ns)
                        oldest = &row[i];
        }
        *oldest = (struct slow_sum){.owner = owner};
        return oldest;
}

bool slow_users_note(struct slow_users *users, uint64_t owner, uint64_t n_ns, uint64_t now_ns)
{
        struct slow_sum *sum = find_sum(users, owner);
        uint64_t forgiven_ns = (now_ns - sum->since_ns) / SLOW_USER_PART;

        if (sum->n_ns <= forgiven_ns)
                *sum = (struct slow_sum){.owner = owner};
        else
                sum->n_ns -= forgiven_ns;
        sum->n_ns += n_ns;
        sum->since_ns = now_ns;
        if (++sum->n < SLOW_USER_CALLS || sum->n_ns <= SLOW_USER_NS)
                return false;
        *sum = (struct slow_sum){.owner = owner, .since_ns = now_ns};
        *find_place(users, owner) = (struct slow_user){owner, now_ns};
        return true;
}
