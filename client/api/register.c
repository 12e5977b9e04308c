/* The public function that makes pinned memory known to the driver. */
#include "base/err.h"
#include "client/blocks/lease.h"
#include "client/api/client.h"
#include "client/pool/shared_alloc.h"

/* Its allocation, which the caller has, keeps the block where it is. */
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

int gpumem_register(struct gpumem_client *client, void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct pool *pool;
        int r = client_check(client);

        if (r)
                return r;
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
