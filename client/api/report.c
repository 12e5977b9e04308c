/* The public functions that tell: what a pointer is, what was refused, what happens. */
#include <string.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/runtime/last_error.h"
#include "client/pool/shared_alloc.h"

static int describe_in(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        int r = pool_describe(pool, pointer, ret_info);

        if (r == GPUMEM_E_NOT_OURS)
                r = shared_alloc_describe(pool, pointer, ret_info);
        /* What the driver made itself it knows. */
        if (!r && pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM)
                ret_info->is_registered = 1;
        return r;
}

int gpumem_describe(struct gpumem_client *client, const void *pointer, struct gpumem_info *ret_info)
{
        struct gpumem_info info = {.struct_size = ret_info->struct_size};
        int r = client_check(client);
        struct pool *pool;

        if (!r)
                r = check_struct(info.struct_size, sizeof(info));
        if (r)
                return r;
        r = GPUMEM_E_NOT_OURS;
        for (uint32_t i = 0; r == GPUMEM_E_NOT_OURS && (pool = client_pool(client, i)); i++)
                r = describe_in(pool, pointer, &info);
        if (!r && client_has_parked(client, info.base))
                r = GPUMEM_E_NOT_OURS;
        if (!r)
                debug_describe(&client->debug, &info);
        if (!r)
                memcpy(ret_info, &info, info.struct_size);
        return r;
}

int gpumem_last_refusal(struct gpumem_client *client, struct gpumem_refusal *ret_refusal)
{
        size_t n_bytes = ret_refusal->struct_size;
        struct gpumem_refusal refusal;
        int r = client ? client_check(client) : 0;

        if (!r)
                r = check_struct(n_bytes, sizeof(refusal));
        if (!r)
                r = last_error_get(client ? client_number(client) : LAST_ERROR_NO_CLIENT, &refusal);
        if (r)
                return r;
        refusal.struct_size = n_bytes;
        memcpy(ret_refusal, &refusal, n_bytes);
        return 0;
}

int gpumem_set_event_callback(struct gpumem_client *client, gpumem_event_callback *callback,
                              void *argument)
{
        int r = client_check(client);

        return r ? r : events_set(client_events(client), callback, argument);
}
