/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/binding.h"

#include "client/connection/reconnect.h"
#include "gpumem.h"

/* The number is read and sent under declare_lock, so that the last message has the latest number. */
void binding_declare(struct pool *pool)
{
        struct frame frame = FRAME_NULL;
        uint64_t connection;
        bool is_missing;

        pthread_mutex_lock(&pool->declare_lock);
        pthread_mutex_lock(&pool->lock);
        frame.held.pool = pool->row.id;
        frame.held.n_bytes = pool->binding.n_held_bytes;
        connection = pool->binding.connection;
        is_missing = pool->binding.is_missing;
        pthread_mutex_unlock(&pool->lock);
        if (connection && !is_missing)
                reconnect_send(pool->reconnector, connection, &frame, MESSAGE_HELD);
        pthread_mutex_unlock(&pool->declare_lock);
}

int binding_find(struct pool *pool, uint64_t connection, uint32_t *ret_id)
{
        int r = 0;

        pthread_mutex_lock(&pool->lock);
        if (pool->binding.connection != connection)
                r = GPUMEM_E_DISCONNECTED;
        else if (pool->binding.is_missing)
                r = GPUMEM_E_NO_POOL;
        else
                *ret_id = pool->row.id;
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int binding_lease(struct pool *pool, uint64_t connection, uint64_t n_bytes)
{
        int r = GPUMEM_E_DISCONNECTED;

        pthread_mutex_lock(&pool->lock);
        if (pool->binding.connection == connection) {
                pool->binding.n_leased_bytes += n_bytes;
                r = 0;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

bool binding_unmapped(struct pool *pool, uint64_t connection, uint64_t n_bytes)
{
        bool is_leased;

        pthread_mutex_lock(&pool->lock);
        is_leased = pool->binding.connection == connection;
        if (is_leased)
                pool->binding.n_leased_bytes -= n_bytes;
        else
                pool->binding.n_held_bytes -= n_bytes;
        pthread_mutex_unlock(&pool->lock);
        if (!is_leased && n_bytes)
                binding_declare(pool);
        return is_leased;
}
