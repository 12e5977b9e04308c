/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/leaks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

/* Of more stacks only the sum is told. */
#define N_TOLD 20

void pasts_add(struct pasts *pasts, const void *pointer, uint64_t n_bytes,
               const struct stack *allocated)
{
        struct past *past;

        if (!pasts->at)
                return;
        past = &pasts->at[pasts->n++ % LEAKS_N_PAST];
        past->pointer = pointer;
        past->n_bytes = n_bytes;
        past->allocated = *allocated;
        stack_take(&past->freed);
}

const struct past *pasts_find(const struct pasts *pasts, const void *pointer)
{
        for (uint64_t i = pasts->n; pasts->at && i > 0 && pasts->n - i < LEAKS_N_PAST; i--) {
                const struct past *past = &pasts->at[(i - 1) % LEAKS_N_PAST];

                if (past->pointer == pointer)
                        return past;
        }
        return NULL;
}

static int by_stack(const void *one, const void *other)
{
        return stack_compare(&((const struct leak *)one)->allocated,
                             &((const struct leak *)other)->allocated);
}

/* Neighbors with one stack. */
struct group {
        const struct leak *first;
        uint64_t n, n_bytes;
};

static int by_size(const void *one, const void *other)
{
        uint64_t n_one = ((const struct group *)one)->n_bytes;
        uint64_t n_other = ((const struct group *)other)->n_bytes;

        return (n_one < n_other) - (n_one > n_other);
}

static uint64_t make_groups(const struct leak *leaks, uint64_t n, struct group *groups)
{
        uint64_t n_groups = 0;

        for (uint64_t i = 0; i < n; i++) {
                if (i == 0 || by_stack(&leaks[i - 1], &leaks[i]) != 0)
                        groups[n_groups++] = (struct group){.first = &leaks[i]};
                groups[n_groups - 1].n++;
                groups[n_groups - 1].n_bytes += leaks[i].n_bytes;
        }
        return n_groups;
}

static void tell_group(const struct group *group)
{
        char title[128];

        (void)snprintf(title, sizeof(title),
                       "GPUMEM_DEBUG: leaks: %" PRIu64 " bytes in %" PRIu64
                       " allocations, one at %p, allocated by",
                       group->n_bytes, group->n, group->first->pointer);
        stack_tell(title, &group->first->allocated);
}

void leaks_tell(struct leak *leaks, uint64_t n)
{
        struct group *groups = calloc(n ? n : 1, sizeof(*groups));
        uint64_t n_groups, n_bytes = 0;

        for (uint64_t i = 0; i < n; i++)
                n_bytes += leaks[i].n_bytes;
        if (n)
                log_error("GPUMEM_DEBUG: leaks: %" PRIu64 " bytes in %" PRIu64
                          " allocations were not freed",
                          n_bytes, n);
        if (!groups)
                return;
        qsort(leaks, n, sizeof(*leaks), by_stack);
        n_groups = make_groups(leaks, n, groups);
        qsort(groups, n_groups, sizeof(*groups), by_size);
        for (uint64_t i = 0; i < n_groups && i < N_TOLD; i++)
                tell_group(&groups[i]);
        if (n_groups > N_TOLD)
                log_error("GPUMEM_DEBUG: leaks: %" PRIu64 " more stacks are left out",
                          n_groups - N_TOLD);
        free(groups);
}
