/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/limits.h"

#include <errno.h>
#include <stdlib.h>

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

size_t limits_find_uid(const struct limits *table, uint32_t uid)
{
        size_t i = 0;

        while (i < table->n_uids && table->uids[i].uid != uid)
                i++;
        return i;
}

static struct uid_limits *find(const struct limits *table, uint32_t uid)
{
        size_t i = limits_find_uid(table, uid);

        return i < table->n_uids ? &table->uids[i] : NULL;
}

static int find_or_add(struct limits *table, uint32_t uid, struct uid_limits **ret_limits)
{
        struct uid_limits *found = find(table, uid), *uids;

        if (!found) {
                uids = realloc(table->uids, (table->n_uids + 1) * sizeof(*uids));
                if (!uids)
                        return -ENOMEM;
                table->uids = uids;
                found = &uids[table->n_uids++];
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
