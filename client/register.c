/* The public function that makes pinned memory known to the driver. */
#include "base/err.h"
#include "client/client.h"
#include "client/registration.h"

int gpumem_register(struct gpumem_client *client, void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
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
