/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/limits.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct limit_set *limits, uint64_t max)
{
        for (unsigned kind = 0; kind < LIMIT_N_KINDS; kind++)
                limits->max[kind] = max;
}

int limits_new(struct limits **ret_table)
{
        struct limits *table = calloc(1, sizeof(*table));

        if (!table)
                return -ENOMEM;
        fill(&table->client, LIMIT_NONE);
        fill(&table->tenant, LIMIT_NONE);
        *ret_table = table;
        return 0;
}

struct limits *limits_free(struct limits *table)
{
        if (!table)
                return NULL;
        free(table->uids);
        free(table);
        return NULL;
}

void limits_check(const struct limits *table)
{
        for (size_t i = 1; i < table->n_uids; i++)
                assert(table->uids[i - 1].uid < table->uids[i].uid);
}

/* Of the first uid that is not below this one; n_uids: there is none. */
static size_t find_place(const struct limits *table, uint32_t uid)
{
        size_t low = 0, high = table->n_uids;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (table->uids[middle].uid < uid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

size_t limits_find_uid(const struct limits *table, uint32_t uid)
{
        size_t i = find_place(table, uid);

        return i < table->n_uids && table->uids[i].uid == uid ? i : table->n_uids;
}

static struct uid_limits *find(const struct limits *table, uint32_t uid)
{
        size_t i = limits_find_uid(table, uid);

        return i < table->n_uids ? &table->uids[i] : NULL;
}

static int find_or_add(struct limits *table, uint32_t uid, struct uid_limits **ret_limits)
{
        struct uid_limits *found = find(table, uid), *uids;
        size_t place;

        if (!found) {
                uids = realloc(table->uids, (table->n_uids + 1) * sizeof(*uids));
                if (!uids)
                        return -ENOMEM;
                table->uids = uids;
                place = find_place(table, uid);
                found = &uids[place];
                memmove(found + 1, found, (table->n_uids - place) * sizeof(*uids));
                table->n_uids++;
                found->uid = uid;
                fill(&found->limits, LIMIT_INHERIT);
        }
        *ret_limits = found;
        return 0;
}

int limits_set_uid(struct limits *table, uint32_t uid, enum limit_kind kind, uint64_t max)
{
        struct uid_limits *limits;
        int r = find_or_add(table, uid, &limits);

        if (!r)
                limits->limits.max[kind] = max;
        return r;
}

uint64_t limits_own_max(const struct limits *table, uint32_t uid, enum limit_kind kind)
{
        const struct uid_limits *own = find(table, uid);

        return own ? own->limits.max[kind] : LIMIT_INHERIT;
}

uint64_t limits_tenant_max(const struct limits *table, uint32_t uid, enum limit_kind kind)
{
        uint64_t own = limits_own_max(table, uid, kind);

        return own != LIMIT_INHERIT ? own : table->tenant.max[kind];
}
