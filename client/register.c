/* The public function that makes pinned memory known to the driver. */
#include "client/client.h"
#include "client/registration.h"

int gpumem_register(struct gpumem_client *client, void *pointer)
{
        struct pool *pool;
        int r = client_check(client);

        if (r)
                return r;
        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                r = registration_make(pool, pointer);
                if (r != GPUMEM_E_NOT_OURS)
                        return r;
        }
        return GPUMEM_E_NOT_OURS;
}
