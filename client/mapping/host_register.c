/* SPDX-License-Identifier: Apache-2.0 */
#include "client/mapping/host_register.h"

#include "driver/context.h"
#include "driver/host.h"
#include "gpumem.h"

static void *bytes_at(uint64_t address)
{
        return (void *)(uintptr_t)address;
}

int host_register_make(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                       uint64_t *ret_context)
{
        uint64_t context;
        int r;

        r = context_current(memory->cuda, &context);
        if (!r)
                r = host_register(memory->cuda, bytes_at(address), n_bytes);
        if (r)
                return r;
        *ret_context = context;
        return 0;
}

bool host_register_lasts(const struct memory *memory)
{
        return memory->kind == GPUMEM_PINNED && memory->pinned == MEMORY_MEMFD && memory->cuda;
}

uint64_t host_register_context(const struct memory *memory)
{
        uint64_t context;

        if (!host_register_lasts(memory) || context_current(memory->cuda, &context))
                return 0;
        return context;
}

bool host_register_is_settled(const struct memory *memory, enum mapping mapping)
{
        return mapping == MAPPING_REGISTERED || !host_register_lasts(memory);
}

uint64_t host_register_id(const struct memory *memory, uint64_t context)
{
        uint64_t id = 0;

        if (context)
                (void)context_has_ended(memory->cuda, context, &id);
        return id;
}

bool host_register_is_over(const struct memory *memory, uint64_t context, uint64_t id)
{
        uint64_t id_now = 0;

        if (context_has_ended(memory->cuda, context, &id_now))
                return true;
        return id && id != context && id_now && id_now != id;
}

int host_register_undo(const struct memory *memory, uint64_t context, uint64_t id, uint64_t address,
                       uint64_t n_bytes)
{
        int r;

        if (host_register_is_over(memory, context, id))
                return 0;
        r = host_unregister_in(memory->cuda, context, bytes_at(address), n_bytes);
        return r == GPUMEM_E_NO_CONTEXT ? 0 : r;
}
