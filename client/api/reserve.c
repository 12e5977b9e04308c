/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_reserve: memory for later allocations. */
#include "base/err.h"
#include "client/api/client.h"
#include "client/api/wrong_request.h"
#include "client/api/default_client.h"
#include "client/api/refusal.h"
#include "client/connection/retry.h"
#include "client/pool/reservation.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

/* Retries: the next daemon may come within the time. */
static int reserve_until_deadline(struct gpumem_client *client, struct pool *pool, uint64_t n_bytes,
                                  uint32_t wait_ms)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct retry retry = retry_begin(wait_ms);
        int r;

        client_end_deferred(client, false);
        graph_memory_end_gone(&client->graph_memory);
        do
                r = pool_reserve(pool, n_bytes, wait_ms);
        while (retry_goes_on(&retry, &client->reconnector, r, &wait_ms));
        return r;
}

int gpumem_reserve(struct gpumem_client *client, int32_t place, uint64_t n_bytes, uint32_t wait_ms)
{
        struct gpumem_request asked = {.kind = GPUMEM_DEVICE, .place = place, .n_bytes = n_bytes};
        struct pool *pool;
        int r = client_enter(&client);

        if (r)
                return r;
        last_error_clear();
        r = client_find_pool(client, GPUMEM_DEVICE, place, &pool);
        if (r == GPUMEM_E_NO_POOL)
                r = wrong_request_place(client, GPUMEM_DEVICE, place);
        if (!r)
                last_error_set_pool(__atomic_load_n(&pool->row.id, __ATOMIC_RELAXED));
        if (!r)
                r = reserve_until_deadline(client, pool, n_bytes, wait_ms);
        if (r)
                refusal_keep(client, r, &asked);
        client_settle(client);
        return r;
}
