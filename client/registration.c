#include "client/registration.h"

#include "base/err.h"
#include "client/shared.h"
#include "driver/context.h"
#include "driver/host.h"
#include "gpumem.h"

static void *bytes_of(const struct leased *leased)
{
        return (void *)(uintptr_t)leased_address(leased);
}

/* Its allocation, which the caller has, keeps the block where it is. */
static int find_block(struct pool *pool, const void *pointer, struct leased **ret_leased)
{
        struct shared_info info;
        int r = pool_find(pool, pointer);

        if (r)
                r = shared_find(pool, pointer, &info);
        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        *ret_leased = leased_of(arena_find(pool->arena, (uint64_t)(uintptr_t)pointer));
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

static int make(struct pool *pool, struct leased *leased)
{
        uint64_t context;
        int r;

        r = context_current(pool->memory.cuda, &context);
        if (!r)
                r = host_register(pool->memory.cuda, bytes_of(leased), leased_bytes(leased));
        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        leased->mapping = MAPPING_REGISTERED;
        leased->context = context;
        pthread_mutex_unlock(&pool->lock);
        return 0;
}

static int make_once(struct pool *pool, struct leased *leased)
{
        int r = 0;

        /* Two threads that register allocations of one block: the driver takes it once. */
        pthread_mutex_lock(&pool->registering);
        if (leased->mapping != MAPPING_REGISTERED)
                r = make(pool, leased);
        pthread_mutex_unlock(&pool->registering);
        return r;
}

int registration_make(struct pool *pool, const void *pointer)
{
        struct leased *leased;
        int r = find_block(pool, pointer, &leased);

        if (r)
                return r;
        if (pool->memory.kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        if (!pool->memory.cuda)
                return GPUMEM_E_NO_DRIVER;
        return pool->memory.pinned == MEMORY_VMM ? 0 : make_once(pool, leased);
}

bool registration_lasts(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_MEMFD &&
               pool->memory.cuda;
}

uint64_t registration_context(const struct pool *pool)
{
        uint64_t context;

        if (!registration_lasts(pool) || context_current(pool->memory.cuda, &context))
                return 0;
        return context;
}

bool registration_is_settled(const struct pool *pool, const struct leased *leased)
{
        return leased->mapping == MAPPING_REGISTERED || !registration_lasts(pool);
}

int registration_undo(const struct pool *pool, struct leased *leased)
{
        int r;

        if (leased->mapping != MAPPING_REGISTERED)
                return 0;
        r = host_unregister_in(pool->memory.cuda, leased->context, bytes_of(leased),
                               leased_bytes(leased));
        /* A context that has been destroyed took its registrations with it. */
        if (r && r != GPUMEM_E_NO_CONTEXT)
                return r;
        leased->mapping = MAPPING_PLAIN;
        return 0;
}
