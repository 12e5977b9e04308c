/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/ipc_mapping.h"

#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/memfd.h"
#include "client/blocks/retained.h"
#include "client/mapping/host_register.h"
#include "driver/context.h"
#include "driver/legacy.h"
#include "gpumem.h"
#include "proto/messages.h"

static_assert(LEGACY_HANDLE_BYTES == PROTO_LEGACY_HANDLE_BYTES, "the daemon's are the driver's");

/* The pause between looks at a block that another thread is about to close. */
#define STEP_NS 50000

int ipc_mapping_check(const struct pool *pool)
{
        int ordinal, r;

        r = context_device(pool->memory.cuda, &ordinal);
        if (r || ordinal == pool->memory.ordinal)
                return r;
        log_debug("memory of device %d is opened with a context of that device, not of device %d",
                  pool->memory.ordinal, ordinal);
        return GPUMEM_E_UNSUPPORTED;
}

uint64_t ipc_mapping_context_id(const struct pool *pool, uint64_t context)
{
        uint64_t id = host_register_id(&pool->memory, context);

        return id ? id : context;
}

bool ipc_mapping_is_over(const struct pool *pool, const struct leased *leased)
{
        return leased->mapping == MAPPING_IPC &&
               host_register_is_over(&pool->memory, leased->context, leased->block.context_id);
}

static int read_handle(int fd, struct legacy_handle *ret_handle)
{
        int r = memfd_check(fd, sizeof(ret_handle->bytes));

        if (r)
                return r;
        return pread(fd, ret_handle->bytes, sizeof(ret_handle->bytes), 0) ==
                               (ssize_t)sizeof(ret_handle->bytes)
                       ? 0
                       : -EPROTO;
}

/* The caller has the lock. */
static bool is_in_reach(const struct pool *pool, uint64_t address, uint64_t n_bytes)
{
        return address % ARENA_GRANULE == 0 && address >= pool->arena_start &&
               n_bytes <= pool->n_arena_bytes &&
               address - pool->arena_start <= pool->n_arena_bytes - n_bytes;
}

static void wait_a_step(struct pool *pool)
{
        pthread_mutex_unlock(&pool->lock);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = STEP_NS}, NULL);
        pthread_mutex_lock(&pool->lock);
}

/* Has its context ended, but it stays for uses (pool_take_ended)? That is a lack of memory: deferred frees are waited for then.
 * A use that was recorded, and not freed, never ends. */
static bool is_held(const struct pool *pool, const struct leased *leased)
{
        return !leased->is_revoked && leased->block.heap && ipc_mapping_is_over(pool, leased);
}

static bool is_leaving(const struct pool *pool, const struct leased *leased)
{
        return leased->is_revoked || ipc_mapping_is_over(pool, leased);
}

/* A record at this address is of the same block, with a lease that was revoked before the block was leased again; or of a context
 * that has ended. If it is retained, it makes way. Else another thread is about to close it, and this waits until that thread has
 * taken it out. The caller has the lock, which may be dropped meanwhile. */
static int make_way(struct pool *pool, struct leased *leased, uint64_t address,
                    struct ipc_mapping_way *way)
{
        struct leased *there;

        if (arena_find(pool->arena, address))
                retained_take_revoked(pool, RETAINED_DROP_EXCESS, &way->list);
        while ((there = leased_of(arena_find(pool->arena, address)))) {
                if (is_held(pool, there))
                        return GPUMEM_E_DEVICE_FULL;
                if (!is_leaving(pool, there) || leased_address(there) != address)
                        return -EPROTO;
                if (there->retained_at_us) {
                        (void)retained_take(pool, there->number, there->connection);
                        arena_take_out(pool->arena, &there->block.at);
                        there->block.at.start = 0;
                        /* What a context had opened that has ended is not open any more. */
                        if (there->block.context_id == leased->block.context_id)
                                leased->n_opens += there->n_opens;
                        way->old = there;
                        return 0;
                }
                wait_a_step(pool);
        }
        return 0;
}

static int put(struct pool *pool, struct leased *leased, uint64_t address)
{
        int r;

        if (arena_room_above(pool->arena, address) < leased_bytes(leased))
                return -EPROTO;
        leased->block.at.start = address;
        r = arena_put(pool->arena, &leased->block.at);
        if (r)
                leased->block.at.start = 0;
        return r;
}

static int place(struct pool *pool, struct leased *leased, uint64_t address,
                 struct ipc_mapping_way *way)
{
        int r = GPUMEM_E_UNSUPPORTED;

        pthread_mutex_lock(&pool->lock);
        if (is_in_reach(pool, address, leased_bytes(leased)))
                r = make_way(pool, leased, address, way);
        else
                log_debug("the driver opened a block out of reach, at %#llx",
                          (unsigned long long)address);
        if (!r)
                r = put(pool, leased, address);
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int ipc_mapping_open(struct pool *pool, struct leased *leased, int fd, struct ipc_mapping_way *way)
{
        const struct cuda *cuda = pool->memory.cuda;
        struct legacy_handle handle;
        uint64_t context, address;
        int r;

        r = read_handle(fd, &handle);
        if (!r)
                r = context_current(cuda, &context);
        if (!r)
                r = legacy_open(cuda, &handle, leased_bytes(leased), &address);
        if (r)
                return r;
        leased->mapping = MAPPING_IPC;
        leased->context = context;
        leased->block.context_id = ipc_mapping_context_id(pool, context);
        leased->n_opens = 1;
        r = place(pool, leased, address, way);
        if (r)
                (void)legacy_close_in(cuda, context, address, &leased->n_opens);
        return r;
}

/* A context that has ended took the blocks with it that were opened in it. The next context may have its handle, and a block of its
 * own at the address. */
int ipc_mapping_close(struct pool *pool, struct leased *leased)
{
        int r = 0;

        /* A second attempt finds the address in `handle`. */
        if (leased_address(leased)) {
                leased->handle = leased_address(leased);
                pthread_mutex_lock(&pool->lock);
                arena_take_out(pool->arena, &leased->block.at);
                leased->block.at.start = 0;
                pthread_mutex_unlock(&pool->lock);
        }
        if (!ipc_mapping_is_over(pool, leased))
                r = legacy_close_in(pool->memory.cuda, leased->context, leased->handle,
                                    &leased->n_opens);
        if (r && leased->n_opens && r != GPUMEM_E_NO_CONTEXT)
                return r;
        leased->handle = 0;
        return 0;
}
