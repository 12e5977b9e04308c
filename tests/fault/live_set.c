/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fault/live_set.h"

#include <string.h>

#define N_SLOTS 65536u
#define GONE    ((uintptr_t)1)

static uintptr_t slots[N_SLOTS];
static unsigned n_used; /* gone ones too */

static unsigned place_of(const void *piece)
{
        return (unsigned)((uintptr_t)piece / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 48) % N_SLOTS;
}

void live_set_clear(void)
{
        memset(slots, 0, sizeof(slots));
        n_used = 0;
}

bool live_set_add(const void *piece)
{
        unsigned i = place_of(piece);

        while (slots[i] > GONE)
                i = (i + 1) % N_SLOTS;
        if (!slots[i] && n_used >= N_SLOTS / 2)
                return false;
        n_used += !slots[i];
        slots[i] = (uintptr_t)piece;
        return true;
}

bool live_set_remove(const void *piece)
{
        for (unsigned i = place_of(piece); slots[i]; i = (i + 1) % N_SLOTS) {
                if (slots[i] != (uintptr_t)piece)
                        continue;
                slots[i] = GONE;
                return true;
        }
        return false;
}
