/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/handle.h"

#include <errno.h>
#include <stdlib.h>

struct slot {
        void *object;   /* NULL: free */
        uint32_t below; /* index + 1 of the slot that was freed before this one */
        bool was_used;
};

static struct handle_table {
        struct slot *slots;
        uint32_t n;
        uint32_t last_freed; /* index + 1 */
} tables[HANDLE_N_KINDS];

static int table_grow(struct handle_table *table)
{
        uint32_t n = table->n ? table->n * 2 : 64;
        struct slot *slots = reallocarray(table->slots, n, sizeof(*slots));

        if (!slots)
                return -ENOMEM;
        for (uint32_t i = n; i > table->n; i--) {
                slots[i - 1] = (struct slot){.below = table->last_freed};
                table->last_freed = i;
        }
        table->slots = slots;
        table->n = n;
        return 0;
}

int handle_new(enum handle_kind kind, void *object, uintptr_t *ret_handle)
{
        struct handle_table *table = &tables[kind];
        uint32_t link;

        if (!table->last_freed && table_grow(table))
                return -ENOMEM;
        link = table->last_freed;
        table->last_freed = table->slots[link - 1].below;
        table->slots[link - 1] = (struct slot){.object = object, .was_used = true};
        *ret_handle = link * HANDLE_STEP + (unsigned)kind;
        return 0;
}

static struct slot *slot_find(enum handle_kind kind, uintptr_t handle)
{
        uint32_t index = handle_index(kind, handle);

        return index < tables[kind].n ? &tables[kind].slots[index] : NULL;
}

void *handle_find(enum handle_kind kind, uintptr_t handle)
{
        struct slot *slot = slot_find(kind, handle);

        return slot ? slot->object : NULL;
}

bool handle_has_ended(enum handle_kind kind, uintptr_t handle)
{
        const struct slot *slot = slot_find(kind, handle);

        return slot && !slot->object && slot->was_used;
}

void handle_free(enum handle_kind kind, uintptr_t handle)
{
        struct slot *slot = slot_find(kind, handle);

        if (!slot || !slot->object)
                return;
        *slot = (struct slot){.below = tables[kind].last_freed, .was_used = true};
        tables[kind].last_freed = (uint32_t)(handle / HANDLE_STEP);
}
