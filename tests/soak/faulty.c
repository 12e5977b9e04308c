/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/faulty.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "gpumem.h"
#include "tests/demo/gpu.h"

/* A driver that fails one call in a hundred does not fail so many in a row. */
#define N_TRIES 100

static uint64_t n_faults;

uint64_t faulty_count(void)
{
        return n_faults;
}

static bool is_fault(int r)
{
        if ((r != -EIO && r != GPUMEM_E_DRIVER) || !getenv("GPUMEM_SOAK_FAULTS"))
                return false;
        n_faults++;
        return true;
}

#define WRAP(call, parameters, arguments)                             \
        int __real_##call parameters;                                 \
        int __wrap_##call parameters;                                 \
        int __wrap_##call parameters                                  \
        {                                                             \
                int r = __real_##call arguments;                      \
                                                                      \
                for (unsigned i = 0; i < N_TRIES && is_fault(r); i++) \
                        r = __real_##call arguments;                  \
                return r;                                             \
        }

WRAP(gpumem_free, (struct gpumem_client * client, void *pointer, void *stream),
     (client, pointer, stream))
WRAP(gpumem_free_sync, (struct gpumem_client * client, void *pointer), (client, pointer))
WRAP(gpumem_record_use, (struct gpumem_client * client, const void *pointer, void *stream),
     (client, pointer, stream))
WRAP(gpumem_flush, (struct gpumem_client * client, uint64_t *ret_freed_bytes),
     (client, ret_freed_bytes))
WRAP(gpumem_graph_pool_begin,
     (struct gpumem_client * client, uint64_t id, void *stream, uint64_t *ret_id),
     (client, id, stream, ret_id))
WRAP(gpumem_graph_pool_end, (struct gpumem_client * client, uint64_t id, void *stream),
     (client, id, stream))

WRAP(gpu_new, (int ordinal, struct gpu **ret_gpu), (ordinal, ret_gpu))
WRAP(gpu_order_after, (struct gpu * gpu, struct gpu *earlier), (gpu, earlier))

int __real_gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                        void **ret_pointer);
int __wrap_gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                        void **ret_pointer);
int __wrap_gpumem_alloc(struct gpumem_client *client, const struct gpumem_request *request,
                        void **ret_pointer)
{
        int r = __real_gpumem_alloc(client, request, ret_pointer);

        return is_fault(r) ? GPUMEM_E_DEVICE_FULL : r;
}
