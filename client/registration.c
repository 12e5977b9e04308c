#include "client/registration.h"

#include "base/err.h"
#include "driver/context.h"
#include "driver/host.h"
#include "gpumem.h"

static void *bytes_of(const struct leased *leased)
{
        return (void *)(uintptr_t)leased->address;
}

/* The block of a live allocation, which keeps it where it is; NULL when the driver needs not be told
 * of it. */
static int find_unregistered(struct pool *pool, const void *pointer, struct leased **ret_leased)
{
        struct stream_key key;
        struct leased *leased;
        int r = pool_find(pool, pointer, &key);

        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        leased = arena_find(pool->arena, (uint64_t)(uintptr_t)pointer);
        *ret_leased = leased->mapping == MAPPING_REGISTERED ? NULL : leased;
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

static int make(struct pool *pool, struct leased *leased)
{
        uint64_t context;
        int r;

        r = context_current(pool->memory.cuda, &context);
        if (!r)
                r = host_register(pool->memory.cuda, bytes_of(leased), leased->n_bytes);
        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        leased->mapping = MAPPING_REGISTERED;
        leased->context = context;
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

int registration_make(struct pool *pool, const void *pointer)
{
        struct leased *leased;
        int r;

        /* Two threads that register allocations of one block: the driver takes it once. */
        pthread_mutex_lock(&pool->registering);
        r = find_unregistered(pool, pointer, &leased);
        if (!r && leased && pool->memory.pinned == MEMORY_MEMFD)
                r = pool->memory.cuda ? make(pool, leased) : GPUMEM_E_NO_DRIVER;
        pthread_mutex_unlock(&pool->registering);
        return r;
}

uint64_t registration_context(const struct pool *pool)
{
        uint64_t context;

        if (pool->memory.kind == GPUMEM_DEVICE || pool->memory.pinned != MEMORY_MEMFD ||
            !pool->memory.cuda || context_current(pool->memory.cuda, &context))
                return 0;
        return context;
}

int registration_undo(const struct pool *pool, struct leased *leased)
{
        int r;

        if (leased->mapping != MAPPING_REGISTERED)
                return 0;
        r = host_unregister_in(pool->memory.cuda, leased->context, bytes_of(leased),
                               leased->n_bytes);
        if (!r)
                leased->mapping = MAPPING_PLAIN;
        return r;
}
