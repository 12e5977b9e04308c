/* SPDX-License-Identifier: Apache-2.0 */
/* What the process may hold, set while it runs. */
#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/blocks/client_limit.h"
#include "client/pool/idle_marking.h"
#include "client/pool/empty_blocks.h"

int gpumem_set_limit(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     uint64_t n_bytes)
{
        struct pool *pool;
        int r = client_find_pool(client, kind, place, &pool);

        if (!r)
                client_limit_set(pool, n_bytes);
        return r;
}

int gpumem_set_memory_fraction(struct gpumem_client *client, int32_t place, double fraction)
{
        struct pool *pool;
        int r = client_find_pool(client, GPUMEM_DEVICE, place, &pool);

        if (r)
                return r;
        if (!(fraction >= 0 && fraction <= 1))
                return GPUMEM_E_BAD_FRACTION;
        client_limit_set(pool, client_limit_of_fraction(fraction, pool->row.n_capacity_bytes));
        return 0;
}

int gpumem_set_cache_size(struct gpumem_client *client, uint64_t n_bytes)
{
        struct capture_spared spared;
        int r = client_enter(&client);

        if (r)
                return r;
        spared = client_spare_captures(client);
        client->n_cache_bytes = n_bytes;
        for (uint32_t i = 0; i < client->n_pools; i++) {
                struct pool *pool = &client->pools[i];

                idle_marking_resize(pool, n_bytes);
                if (n_bytes != UINT64_MAX)
                        empty_blocks_to_budget(pool);
                else
                        empty_blocks_wait(pool);
        }
        /* Without a size blocks are marked idle, those that are empty already, too. */
        if (n_bytes == UINT64_MAX)
                (void)service_thread_wake(&client->service);
        capture_spare_end(&spared);
        client_settle(client);
        return 0;
}
