/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/allowance.h"

#include <assert.h>

#include "base/size.h"
#include "gpumem.h"

static uint64_t n_left_of_all(const struct allowances *all, enum allowance_kind kind)
{
        return all->max[kind] - size_smaller(all->n[kind], all->max[kind]);
}

/* A process, its tenant, its user. */
#define DEPTH_MAX 3

/* Lessens what is left for all, or for all parts of its parent, to how much more it may take while others keep as much as
 * it then has; at most its maximum in total. */
static bool lessen(const struct allowance *allowance, enum allowance_kind kind, uint64_t *n_left)
{
        const struct allowances *all = allowance->all;
        uint64_t own = allowance->n[kind];
        uint64_t max = allowance->has_tenants ? all->max_tenants[kind] : all->max_each[kind];

        if (own > *n_left || own > max)
                return false;
        *n_left = size_smaller(*n_left, max) - own;
        return true;
}

static bool find_room(const struct allowance *allowance, enum allowance_kind kind, uint64_t *ret_n)
{
        const struct allowance *way[DEPTH_MAX], *next = allowance;
        uint64_t n_left = n_left_of_all(allowance->all, kind);
        unsigned n = 0;

        for (; next; next = next->parent) {
                assert(n < DEPTH_MAX);
                way[n++] = next;
        }
        while (n) {
                if (!lessen(way[--n], kind, &n_left))
                        return false;
        }
        *ret_n = n_left;
        return true;
}

static const struct allowance *user_of(const struct allowance *allowance)
{
        while (allowance->parent)
                allowance = allowance->parent;
        return allowance;
}

/* A user's `least` is not shared among its tenants and processes by the same rule: it is too little to be halved. */
bool allowance_fits(const struct allowance *allowance, enum allowance_kind kind, uint64_t n)
{
        const struct allowances *all = allowance->all;
        uint64_t n_left = n_left_of_all(all, kind), n_room;

        if (n > n_left)
                return false;
        if (user_of(allowance)->n[kind] + n <= all->least[kind])
                return true;
        return n <= n_left - size_smaller(n_left, all->kept[kind]) &&
               find_room(allowance, kind, &n_room) && n <= n_room;
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
        for (struct allowance *taken = due->allowance; taken; taken = taken->parent)
                taken->n[due->kind] += n;
}

void due_shrink(struct due *due, uint64_t n)
{
        assert(due->n >= n && due->allowance->n[due->kind] >= n);
        due->n -= n;
        due->allowance->all->n[due->kind] -= n;
        for (struct allowance *taken = due->allowance; taken; taken = taken->parent)
                taken->n[due->kind] -= n;
}

void due_end(struct due *due)
{
        if (!due->allowance)
                return;
        due_shrink(due, due->n);
        *due = DUE_NULL;
}
