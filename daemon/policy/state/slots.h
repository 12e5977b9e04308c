/* Small numbers for a client's leases: the lowest free one is taken. Owned by one client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slots {
        uint32_t n;
        uint32_t n_taken;
        uint64_t *free_bits; /* bit s of the whole: slot s is free */
};

int slots_init(struct slots *slots, uint32_t n);
void slots_deinit(struct slots *slots);

/* GPUMEM_E_TOO_MANY when all are taken. */
int slots_take(struct slots *slots, uint32_t *ret_slot);
void slots_give_back(struct slots *slots, uint32_t slot);
bool slots_is_taken(const struct slots *slots, uint32_t slot);
