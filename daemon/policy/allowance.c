#include "daemon/policy/allowance.h"

#include <assert.h>

#include "gpumem.h"

bool allowance_fits(const struct allowance *allowance, enum allowance_kind kind, uint64_t n)
{
        const struct allowances *all = allowance->all;
        uint64_t own = allowance->n[kind], n_left;

        if (all->n[kind] > all->max[kind])
                return false;
        n_left = all->max[kind] - all->n[kind];
        return n <= n_left && own <= n_left - n && own <= all->max_each[kind] &&
               n <= all->max_each[kind] - own;
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
        due->allowance->n[due->kind] += n;
        due->allowance->all->n[due->kind] += n;
}

void due_shrink(struct due *due, uint64_t n)
{
        assert(due->n >= n && due->allowance->n[due->kind] >= n);
        due->n -= n;
        due->allowance->n[due->kind] -= n;
        due->allowance->all->n[due->kind] -= n;
}

void due_end(struct due *due)
{
        if (!due->allowance)
                return;
        due_shrink(due, due->n);
        *due = (struct due)DUE_NULL;
}
