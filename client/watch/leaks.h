/* SPDX-License-Identifier: Apache-2.0 */
/* What GPUMEM_DEBUG=stacks,leaks remembers and tells besides the table of live allocations in debug.h: allocations that
 * were freed lately, and those that live at the end of the client or of the process. */
#pragma once

#include <stdint.h>

#include "client/runtime/stacks.h"

/* So many that were freed last are remembered. */
#define LEAKS_N_PAST 1024

struct past {
        const void *pointer; /* NULL: no entry */
        uint64_t n_bytes;
        struct stack allocated, freed;
};

/* Guarded by the owner's lock. */
struct pasts {
        struct past *at; /* NULL: nothing is remembered */
        uint64_t n;      /* ever */
};

void pasts_add(struct pasts *pasts, const void *pointer, uint64_t n_bytes,
               const struct stack *allocated);

/* The last one at that address, or NULL. */
const struct past *pasts_find(const struct pasts *pasts, const void *pointer);

struct leak {
        const void *pointer;
        uint64_t n_bytes;
        struct stack allocated;
};

/* Writes to stderr what lives, those of one stack together, the largest sums first. Sorts the array. */
void leaks_tell(struct leak *leaks, uint64_t n);
