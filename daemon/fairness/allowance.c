/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/allowance.h"

#include <assert.h>

#include "gpumem.h"

/* How much more a user may take while others keep as much as it then has; at most `max` in total. */
static bool find_room(const struct allowance *user, enum allowance_kind kind, uint64_t max,
                      uint64_t *ret_n)
{
        const struct allowances *all = user->all;
        uint64_t own = user->n[kind], n_left;

        if (all->n[kind] > all->max[kind])
                return false;
        n_left = all->max[kind] - all->n[kind];
        if (own > n_left || own > max)
                return false;
        *ret_n = n_left < max ? n_left - own : max - own;
        return true;
}

bool allowance_fits(const struct allowance *allowance, enum allowance_kind kind, uint64_t n)
{
        const struct allowances *all = allowance->all;
        uint64_t own = allowance->n[kind], max = all->max_each[kind], n_room;

        if (!allowance->user)
                return find_room(allowance, kind, max, &n_room) && n <= n_room;
        return find_room(allowance->user, kind, all->max_user[kind], &n_room) && own <= n_room &&
               n <= n_room - own && own <= max && n <= max - own;
}

bool allowance_is_unused(const struct allowance *allowance)
{
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                if (allowance->n[kind])
                        return false;
        }
        return true;
}

int due_begin(struct due *due, struct allowance *allowance, enum allowance_kind kind, uint64_t n)
{
        if (!allowance_fits(allowance, kind, n))
                return GPUMEM_E_TOO_MANY;
        *due = (struct due){.allowance = allowance, .kind = kind};
        due_grow(due, n);
        return 0;
}

void due_grow(struct due *due, uint64_t n)
{
        due->n += n;
        due->allowance->all->n[due->kind] += n;
        due->allowance->n[due->kind] += n;
        if (due->allowance->user)
                due->allowance->user->n[due->kind] += n;
}

void due_shrink(struct due *due, uint64_t n)
{
        assert(due->n >= n && due->allowance->n[due->kind] >= n);
        due->n -= n;
        due->allowance->all->n[due->kind] -= n;
        due->allowance->n[due->kind] -= n;
        if (due->allowance->user)
                due->allowance->user->n[due->kind] -= n;
}

void due_end(struct due *due)
{
        if (!due->allowance)
                return;
        due_shrink(due, due->n);
        *due = DUE_NULL;
}
