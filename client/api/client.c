/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/client.h"

#include <string.h>

#include "base/err.h"
#include "client/blocks/binding.h"
#include "client/pool/nearest_node.h"

struct pool *client_pool(struct gpumem_client *client, uint32_t index)
{
        return index < client->n_pools ? &client->pools[index] : NULL;
}

struct pool *client_pool_on(struct gpumem_client *client, uint64_t connection, uint32_t id)
{
        struct pool *pool;
        uint32_t here;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (binding_find(pool, connection, &here) == 0 && here == id)
                        return pool;
        }
        return NULL;
}

struct reconnector *client_reconnector(struct gpumem_client *client)
{
        return &client->reconnector;
}

struct events *client_events(struct gpumem_client *client)
{
        return &client->events;
}

const struct cuda *client_cuda(const struct gpumem_client *client)
{
        return client->has_cuda ? &client->cuda : NULL;
}

struct capture_spared client_spare_captures(const struct gpumem_client *client)
{
        return capture_spare(client_cuda(client));
}

uint64_t client_number(const struct gpumem_client *client)
{
        return client->number;
}

int check_struct(size_t n_their_bytes, size_t n_our_bytes)
{
        return n_their_bytes <= sizeof(size_t) || n_their_bytes > n_our_bytes ? -EINVAL : 0;
}

int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes)
{
        const char *bytes = theirs;

        if (n_their_bytes <= sizeof(size_t))
                return -EINVAL;
        if (n_their_bytes == n_our_bytes) {
                memcpy(ours, theirs, n_our_bytes);
                return 0;
        }
        for (size_t i = n_our_bytes; i < n_their_bytes; i++) {
                if (bytes[i])
                        return -E2BIG;
        }
        memset(ours, 0, n_our_bytes);
        memcpy(ours, theirs, n_their_bytes < n_our_bytes ? n_their_bytes : n_our_bytes);
        return 0;
}

static bool is_at(const struct pool *pool, enum gpumem_kind kind, int32_t place)
{
        int here = kind == GPUMEM_DEVICE ? pool->memory.ordinal : pool->memory.node;

        if (pool->row.kind != (uint32_t)kind)
                return false;
        return here == place || (kind == GPUMEM_PINNED && place == GPUMEM_NEAREST);
}

/* Prefers a pool of the present daemon to a missing one: the next daemon may make pinned memory of a node
 * differently. */
struct pool *client_pool_at(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        struct pool *found = NULL;

        if (kind == GPUMEM_PINNED && place == GPUMEM_NEAREST)
                found = nearest_node_pool(client->pools, client->n_pools, client_cuda(client));
        for (uint32_t i = 0; !found && i < client->n_pools; i++) {
                if (is_at(&client->pools[i], kind, place) && !client->pools[i].binding.is_missing)
                        found = &client->pools[i];
        }
        for (uint32_t i = 0; !found && i < client->n_pools; i++) {
                if (is_at(&client->pools[i], kind, place))
                        found = &client->pools[i];
        }
        return found;
}
