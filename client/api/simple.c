/* SPDX-License-Identifier: Apache-2.0 */
/* The common case in one line, and the library's version. */
#include "gpumem.h"

int gpumem_malloc(uint64_t n_bytes, void *stream, void **ret_pointer)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .stream = stream,
                                               .n_bytes = n_bytes};

        return gpumem_alloc(NULL, &request, ret_pointer);
}

int gpumem_malloc_pinned(uint64_t n_bytes, void **ret_pointer)
{
        const struct gpumem_request request = {
                .struct_size = sizeof(request), .kind = GPUMEM_PINNED, .n_bytes = n_bytes};

        return gpumem_alloc(NULL, &request, ret_pointer);
}

const char *gpumem_version(void)
{
        return PROJECT_VERSION;
}
