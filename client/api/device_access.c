/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions that let devices reach memory: that of other devices, and pinned memory. */
#include <stdio.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/blocks/lease.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"
#include "driver/context.h"
#include "driver/device.h"
#include "driver/vmm.h"

static int refuse_place(int ordinal, const char *why)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "CUDA device %d: %s", ordinal, why);
        last_error_set(GPUMEM_E_NO_POOL, text);
        return GPUMEM_E_NO_POOL;
}

static int find_device(const struct cuda *cuda, int32_t place, int *ret_ordinal)
{
        int count, r;

        if (place == GPUMEM_NEAREST)
                return context_device(cuda, ret_ordinal);
        r = device_count(cuda, &count);
        if (r)
                return r;
        if (place < 0 || place >= count || place >= VMM_DEVICES_MAX)
                return refuse_place(place, "this process has no such device");
        *ret_ordinal = place;
        return 0;
}

static int refuse(const char *why, int ordinal, int peer)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "device %d cannot reach memory of device %d: %s", peer,
                       ordinal, why);
        last_error_set(GPUMEM_E_UNSUPPORTED, text);
        return GPUMEM_E_UNSUPPORTED;
}

static int check_reach(const struct cuda *cuda, const struct pool *pool, int peer)
{
        int ordinal = pool->memory.ordinal;
        bool reaches;
        int r;

        if (pool->memory.is_ipc)
                return refuse("gpumemd serves it as CUDA IPC handles (ipc \"legacy\")", ordinal,
                              peer);
        r = device_reaches(cuda, peer, ordinal, &reaches);
        if (!r && !reaches)
                r = refuse("they are not peers (cuDeviceCanAccessPeer)", ordinal, peer);
        return r;
}

static int enable(struct gpumem_client *client, int32_t place, int32_t peer_place)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        const struct cuda *cuda = client_cuda(client);
        struct pool *pool = NULL;
        int ordinal = -1, peer = -1, r;

        if (!cuda)
                return GPUMEM_E_NO_DRIVER;
        r = find_device(cuda, place, &ordinal);
        if (!r)
                r = find_device(cuda, peer_place, &peer);
        if (!r)
                pool = client_pool_at(client, GPUMEM_DEVICE, ordinal);
        if (!r && !pool)
                r = refuse_place(ordinal, "gpumemd has no pool for it");
        if (r || peer == ordinal)
                return r;
        r = check_reach(cuda, pool, peer);
        return r ? r : leased_allow_peer(pool, peer);
}

int gpumem_enable_peer(struct gpumem_client *client, int32_t place, int32_t peer)
{
        struct gpumem_request refused = {.kind = GPUMEM_DEVICE, .place = place};
        int r = client_enter(&client);

        if (r)
                return r;
        last_error_clear();
        r = enable(client, place, peer);
        if (r)
                last_error_keep(client_number(client), r, &refused);
        return r;
}

/* The caller has the allocation, which keeps the block in place. */
static int find_block(struct pool *pool, const void *pointer, struct leased **ret_leased)
{
        struct shared_alloc_info info;
        int r = pool_find(pool, pointer);

        if (r)
                r = shared_alloc_find(pool, pointer, &info);
        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        *ret_leased = leased_of(arena_find(pool->arena, (uint64_t)(uintptr_t)pointer));
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

static int register_memory(struct gpumem_client *client, const void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct pool *pool;
        int r;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                struct leased *leased;

                r = find_block(pool, pointer, &leased);
                if (!r)
                        return leased_register(pool, leased);
                if (r != GPUMEM_E_NOT_OURS)
                        return r;
        }
        return GPUMEM_E_NOT_OURS;
}

int gpumem_register(struct gpumem_client *client, void *pointer)
{
        int r = client_enter(&client);

        return r ? r : register_memory(client, pointer);
}
