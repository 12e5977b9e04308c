/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_flush, gpumem_trim, gpumem_trim_idle and gpumem_free_all_blocks: return memory that no allocation needs. */
#include "base/clock.h"
#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/pool/empty_blocks.h"

static uint64_t flush(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        uint64_t n_bytes = 0;

        client_wait_for_freed(client);
        for (uint32_t i = 0; i < client->n_pools; i++)
                n_bytes += empty_blocks_flush(&client->pools[i]);
        return n_bytes;
}

int gpumem_flush(struct gpumem_client *client, uint64_t *ret_freed_bytes)
{
        uint64_t n_bytes;
        int r = client_enter(&client);

        if (r)
                return r;
        n_bytes = flush(client);
        if (ret_freed_bytes)
                *ret_freed_bytes = n_bytes;
        client_settle(client);
        return 0;
}

/* As much as is wanted may be free already, so freed memory of captures is waited for by a flush only. */
int gpumem_trim(struct gpumem_client *client, uint64_t n_keep_bytes, uint64_t *ret_freed_bytes)
{
        struct capture_spared spared;
        uint64_t n_bytes = 0;
        int r = client_enter(&client);

        if (r)
                return r;
        if (!n_keep_bytes)
                return gpumem_flush(client, ret_freed_bytes);
        spared = client_spare_captures(client);
        for (uint32_t i = 0; i < client->n_pools; i++)
                n_bytes += empty_blocks_down_to(&client->pools[i], n_keep_bytes);
        capture_spare_end(&spared);
        if (ret_freed_bytes)
                *ret_freed_bytes = n_bytes;
        client_settle(client);
        return 0;
}

int gpumem_trim_idle(struct gpumem_client *client, uint32_t idle_ms, uint64_t *ret_freed_bytes)
{
        uint64_t now_us = clock_now_us(), age_us = (uint64_t)idle_ms * 1000, n_bytes = 0;
        struct capture_spared spared;
        int r = client_enter(&client);

        if (r)
                return r;
        spared = client_spare_captures(client);
        for (uint32_t i = 0; i < client->n_pools && age_us <= now_us; i++)
                n_bytes += empty_blocks_older(&client->pools[i], now_us - age_us);
        capture_spare_end(&spared);
        if (ret_freed_bytes)
                *ret_freed_bytes = n_bytes;
        client_settle(client);
        return 0;
}

/* A block that this process returns is in the daemon's cache when the daemon handles the request, and is counted
 * there. But if the daemon keeps no cache, the block is released by then and not counted. So the larger count is
 * returned, not the sum. */
int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                           uint64_t *ret_freed_bytes)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint64_t n_flushed_bytes;
        int r;

        r = client_enter(&client);
        if (r)
                return r;
        if (scope != GPUMEM_SCOPE_TENANT && scope != GPUMEM_SCOPE_NODE)
                return GPUMEM_E_BAD_REQUEST;
        n_flushed_bytes = flush(client);
        request.free_all_blocks.scope = (uint32_t)scope;
        request.free_all_blocks.pool = PROTO_ALL_POOLS;
        r = reconnect_call(&client->reconnector, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED,
                           &reply, &fds, NULL);
        client_settle(client);
        if (r)
                return r;
        if (ret_freed_bytes)
                *ret_freed_bytes = reply.freed.n_bytes > n_flushed_bytes ? reply.freed.n_bytes
                                                                         : n_flushed_bytes;
        return 0;
}
