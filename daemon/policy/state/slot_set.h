/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a client's leases: the lowest free one is taken. Owned by one client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slot_set {
        uint32_t n;
        uint32_t n_taken;
        uint64_t *free_bits; /* bit s: slot s is free */
};

int slot_set_init(struct slot_set *slots, uint32_t n);
void slot_set_deinit(struct slot_set *slots);

/* GPUMEM_E_TOO_MANY if all are taken. */
int slot_set_take(struct slot_set *slots, uint32_t *ret_slot);
void slot_set_give_back(struct slot_set *slots, uint32_t slot);
bool slot_set_is_taken(const struct slot_set *slots, uint32_t slot);
