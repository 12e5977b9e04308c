/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/primary_context.h"

#include "base/err.h"
#include "driver/context.h"
#include "gpumem.h"

void primary_contexts_init(struct primary_contexts *primaries)
{
        *primaries = (struct primary_contexts){.contexts = {0}};
        pthread_mutex_init(&primaries->lock, NULL);
}

void primary_contexts_deinit(struct primary_contexts *primaries, const struct cuda *cuda)
{
        for (int ordinal = 0; ordinal < PRIMARY_CONTEXTS_MAX; ordinal++) {
                if (primaries->contexts[ordinal])
                        (void)context_release_primary(cuda, ordinal);
        }
        pthread_mutex_destroy(&primaries->lock);
}

/* If the program has reset its device, the context has ended, and the next one is retained. The caller has the lock. */
static int retain(struct primary_contexts *primaries, const struct cuda *cuda, int ordinal)
{
        uint64_t *context = &primaries->contexts[ordinal], id;

        if (*context && !context_has_ended(cuda, *context, &id))
                return 0;
        if (*context)
                (void)context_release_primary(cuda, ordinal);
        *context = 0;
        return context_retain_primary(cuda, ordinal, context);
}

static int find_ordinal(const struct cuda *cuda, int32_t place, int *ret_ordinal)
{
        if (place == GPUMEM_NEAREST && context_device(cuda, &place))
                place = 0;
        if (place < 0 || place >= PRIMARY_CONTEXTS_MAX)
                return GPUMEM_E_NO_POOL;
        *ret_ordinal = place;
        return 0;
}

int primary_contexts_run(struct primary_contexts *primaries, const struct cuda *cuda, int32_t place,
                         int (*call)(const struct cuda *cuda, void *argument), void *argument)
{
        uint64_t context = 0;
        int ordinal, r = find_ordinal(cuda, place, &ordinal);

        if (r)
                return r;
        pthread_mutex_lock(&primaries->lock);
        r = retain(primaries, cuda, ordinal);
        context = primaries->contexts[ordinal];
        pthread_mutex_unlock(&primaries->lock);
        if (r)
                return r == -EINVAL ? GPUMEM_E_NO_POOL : r;
        return context_run(cuda, context, call, argument);
}
