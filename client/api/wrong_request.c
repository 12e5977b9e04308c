/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/wrong_request.h"

#include <stdio.h>

#include "base/err.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"

#define FLAGS_ALL (SHARED_ALLOC_FLAGS | GPUMEM_AT_PLACE | GPUMEM_PRIMARY)

int wrong_request_place(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        const char *what = kind == GPUMEM_DEVICE ? "CUDA device" : "NUMA node", *mark = "for";
        char text[GPUMEM_TEXT_BYTES];
        const struct pool *pool;
        int n = snprintf(text, sizeof(text), "gpumemd has no pool for %s %d; it has pools", what,
                         place);

        for (uint32_t i = 0; (pool = client_pool(client, i)) && n < (int)sizeof(text); i++) {
                if (pool->memory.kind != kind || pool->binding.is_missing || pool_place(pool) < 0)
                        continue;
                n += snprintf(text + n, sizeof(text) - (size_t)n, " %s %d", mark, pool_place(pool));
                mark = "and";
        }
        if (*mark == 'f')
                (void)snprintf(text, sizeof(text), "gpumemd has no pool for any %s here", what);
        last_error_set(GPUMEM_E_NO_POOL, text);
        return GPUMEM_E_NO_POOL;
}

int wrong_request_stream(int ordinal, int32_t place)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "the stream is of CUDA device %d, and place is %d; allowed are %d and "
                       "GPUMEM_NEAREST (%d)",
                       ordinal, place, ordinal, GPUMEM_NEAREST);
        last_error_set(GPUMEM_E_WRONG_STREAM, text);
        return GPUMEM_E_WRONG_STREAM;
}

int wrong_request_kind(enum gpumem_kind kind)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "kind is %d; allowed are GPUMEM_DEVICE (%d) and GPUMEM_PINNED (%d)",
                       (int)kind, GPUMEM_DEVICE, GPUMEM_PINNED);
        last_error_set(GPUMEM_E_BAD_REQUEST, text);
        return GPUMEM_E_BAD_REQUEST;
}

int wrong_request_check(const struct gpumem_request *request)
{
        char text[GPUMEM_TEXT_BYTES];

        if (request->n_bytes == 0) {
                last_error_set(GPUMEM_E_BAD_REQUEST, "n_bytes is 0; allowed is 1 byte or more");
                return GPUMEM_E_BAD_REQUEST;
        }
        if (!(request->flags & GPUMEM_AT_PLACE) && request->place &&
            request->place != GPUMEM_NEAREST) {
                (void)snprintf(text, sizeof(text),
                               "place is %d; without GPUMEM_AT_PLACE (%u) in flags it must be 0 or "
                               "GPUMEM_NEAREST (%d)",
                               request->place, (unsigned)GPUMEM_AT_PLACE, GPUMEM_NEAREST);
                last_error_set(GPUMEM_E_BAD_REQUEST, text);
                return GPUMEM_E_BAD_REQUEST;
        }
        if (!(request->flags & ~FLAGS_ALL))
                return 0;
        (void)snprintf(text, sizeof(text),
                       "flags are 0x%x; allowed are GPUMEM_SHAREABLE (%u), GPUMEM_AT_PLACE (%u), "
                       "GPUMEM_PRIMARY (%u), GPUMEM_REGISTERED (%u) and GPUMEM_RDMA (%u)",
                       (unsigned)request->flags, (unsigned)GPUMEM_SHAREABLE,
                       (unsigned)GPUMEM_AT_PLACE, (unsigned)GPUMEM_PRIMARY,
                       (unsigned)GPUMEM_REGISTERED, (unsigned)GPUMEM_RDMA);
        last_error_set(GPUMEM_E_UNSUPPORTED, text);
        return GPUMEM_E_UNSUPPORTED;
}
