/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/quota.h"

#include <assert.h>

#include "daemon/policy/state/limits.h"

static enum limit_kind bytes_kind(enum policy_kind kind)
{
        return kind == POLICY_DEVICE ? LIMIT_DEVICE_BYTES : LIMIT_PINNED_BYTES;
}

uint64_t usage_bytes(const struct usage *usage, enum policy_kind kind)
{
        return usage->n[bytes_kind(kind)];
}

void usage_add(struct usage *usage, enum policy_kind kind, uint64_t n_bytes)
{
        assert(n_bytes <= UINT64_MAX - usage->n[bytes_kind(kind)]);
        usage->n[bytes_kind(kind)] += n_bytes;
        usage->n[LIMIT_LEASES]++;
}

void usage_remove(struct usage *usage, enum policy_kind kind, uint64_t n_bytes)
{
        assert(usage->n[bytes_kind(kind)] >= n_bytes && usage->n[LIMIT_LEASES] > 0);
        usage->n[bytes_kind(kind)] -= n_bytes;
        usage->n[LIMIT_LEASES]--;
}

static uint64_t max_of(const struct client *client, enum limit_scope scope, enum limit_kind kind)
{
        const struct limits *table = client->policy->limits;

        if (!table)
                return LIMIT_NONE;
        return scope == LIMIT_OF_CLIENT ? table->client.max[kind]
                                        : limits_tenant_max(table, client->tenant->key.uid, kind);
}

static bool passes(uint64_t used, uint64_t more, uint64_t max)
{
        return max != LIMIT_NONE && (more > max || used > max - more);
}

/* The charges that would be added. */
struct more {
        uint64_t n_bytes;
        uint64_t n_leases;
};

static struct more one(uint64_t n_bytes)
{
        return (struct more){.n_bytes = n_bytes, .n_leases = 1};
}

static struct more all_of(const struct request *request)
{
        return (struct more){.n_bytes = request->n_all_bytes, .n_leases = request->n_parts};
}

static bool passes_any(const struct client *client, enum limit_scope scope, const struct pool *pool,
                       struct more wanted, const struct usage *usage, struct limit_hit *ret_hit)
{
        const enum limit_kind kinds[] = {bytes_kind(pool->settings.kind), LIMIT_LEASES};

        for (unsigned i = 0; i < 2; i++) {
                uint64_t max = max_of(client, scope, kinds[i]);
                uint64_t more = kinds[i] == LIMIT_LEASES ? wanted.n_leases : wanted.n_bytes;

                if (passes(usage->n[kinds[i]], more, max)) {
                        *ret_hit = (struct limit_hit){.scope = scope,
                                                      .kind = kinds[i],
                                                      .used = usage->n[kinds[i]],
                                                      .max = max};
                        return true;
                }
        }
        return false;
}

static bool is_passed(const struct client *client, const struct pool *pool, struct more wanted,
                      struct limit_hit *ret_hit)
{
        return passes_any(client, LIMIT_OF_CLIENT, pool, wanted, &client->usage, ret_hit) ||
               passes_any(client, LIMIT_OF_TENANT, pool, wanted, &client->tenant->usage, ret_hit);
}

bool quota_is_passed(const struct client *client, const struct pool *pool, uint64_t n_bytes,
                     struct limit_hit *ret_hit)
{
        return is_passed(client, pool, one(n_bytes), ret_hit);
}

bool quota_is_passed_by(const struct request *request, struct limit_hit *ret_hit)
{
        return is_passed(request->client, request->pool, all_of(request), ret_hit);
}

bool quota_bars(const struct client *client, enum limit_scope scope, const struct pool *pool,
                uint64_t n_bytes, const struct usage *shared_usage)
{
        struct usage usage = scope == LIMIT_OF_CLIENT ? client->usage : client->tenant->usage;
        struct limit_hit hit;

        for (unsigned i = 0; i < LIMIT_N_KINDS; i++)
                usage.n[i] += shared_usage->n[i];
        return passes_any(client, scope, pool, one(n_bytes), &usage, &hit);
}

bool quota_bars_cached(const struct client *client, const struct block *block)
{
        const struct pool *pool = block->pool;
        uint64_t n_bytes = block->bin->n_bytes;
        struct limit_hit hit;

        if (block->charge.client == client)
                return false;
        if (block->charge.client)
                return passes_any(client, LIMIT_OF_CLIENT, pool, one(n_bytes), &client->usage,
                                  &hit);
        return quota_is_passed(client, pool, n_bytes, &hit);
}

bool quota_is_hopeless(const struct request *request, struct limit_hit *ret_hit)
{
        const struct client *client = request->client;
        const struct usage nothing = {{0}};
        struct limit_hit hit;

        if (!passes_any(client, LIMIT_OF_CLIENT, request->pool, all_of(request), &nothing, &hit) &&
            !passes_any(client, LIMIT_OF_TENANT, request->pool, all_of(request), &nothing, &hit))
                return false;
        hit.used = (hit.scope == LIMIT_OF_CLIENT ? &client->usage : &client->tenant->usage)
                           ->n[hit.kind];
        *ret_hit = hit;
        return true;
}

static struct limit_hit behind(const struct client *client, enum limit_scope scope,
                               enum limit_kind kind, const struct usage *usage)
{
        return (struct limit_hit){
                .scope = scope,
                .kind = kind,
                .why = LIMIT_IS_WAITED_FOR,
                .used = usage->n[kind],
                .max = max_of(client, scope, kind),
        };
}

bool quota_holds(const struct request *request, uint64_t walk, struct limit_hit *ret_hit)
{
        const struct client *client = request->client;
        const struct tenant *tenant = client->tenant;

        if (client->limited.walk == walk)
                *ret_hit = behind(client, LIMIT_OF_CLIENT, client->limited.kind, &client->usage);
        else if (tenant->limited.walk == walk)
                *ret_hit = behind(client, LIMIT_OF_TENANT, tenant->limited.kind, &tenant->usage);
        else
                return quota_is_passed_by(request, ret_hit);
        return true;
}

void quota_wait(struct request *request, uint64_t walk, const struct limit_hit *hit)
{
        struct client *client = request->client;
        struct limited *limited = hit->scope == LIMIT_OF_CLIENT ? &client->limited
                                                                : &client->tenant->limited;

        *limited = (struct limited){.walk = walk, .kind = hit->kind};
}
