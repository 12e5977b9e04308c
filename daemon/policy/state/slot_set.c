/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/slot_set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "gpumem.h"

static uint32_t n_words(uint32_t n_slots)
{
        return n_slots / 64 + (n_slots % 64 != 0);
}

int slot_set_init(struct slot_set *slots, uint32_t n)
{
        uint64_t *free_bits = calloc(n_words(n) ? n_words(n) : 1, sizeof(*free_bits));

        if (!free_bits)
                return -ENOMEM;
        for (uint32_t word = 0; word < n / 64; word++)
                free_bits[word] = UINT64_MAX;
        if (n % 64)
                free_bits[n / 64] = (UINT64_C(1) << (n % 64)) - 1;
        *slots = (struct slot_set){.n = n, .free_bits = free_bits};
        return 0;
}

void slot_set_deinit(struct slot_set *slots)
{
        free(slots->free_bits);
        slots->free_bits = NULL;
}

int slot_set_take(struct slot_set *slots, uint32_t *ret_slot)
{
        for (uint32_t word = 0; word < n_words(slots->n); word++) {
                uint64_t bits = slots->free_bits[word];

                if (!bits)
                        continue;
                slots->free_bits[word] = bits & (bits - 1);
                slots->n_taken++;
                *ret_slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
                return 0;
        }
        return GPUMEM_E_TOO_MANY;
}

void slot_set_give_back(struct slot_set *slots, uint32_t slot)
{
        assert(slot_set_is_taken(slots, slot));
        slots->free_bits[slot / 64] |= UINT64_C(1) << (slot % 64);
        slots->n_taken--;
}

bool slot_set_is_taken(const struct slot_set *slots, uint32_t slot)
{
        assert(slot < slots->n);
        return !(slots->free_bits[slot / 64] >> (slot % 64) & 1);
}
