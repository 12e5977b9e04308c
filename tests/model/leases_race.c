/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's steps out of IDLE: the client may be faster, after the daemon has looked. */
#include "proto/board.h"
#include "tests/model/leases_world.h"

/* The client that may take the lease of this word back. */
static struct party *owner_of(const _Atomic uint64_t *word, uint32_t *ret_slot)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                struct party *party = &world->parties[i];

                if (word < party->words || word >= party->words + N_SLOTS)
                        continue;
                *ret_slot = (uint32_t)(word - party->words);
                if (party->life == LIFE_RUNS && !party->left &&
                    party->held[*ret_slot].state == HELD_IDLE)
                        return party;
        }
        return NULL;
}

bool explore_daemon_step(_Atomic uint64_t *word, uint64_t *expected, uint64_t desired)
{
        uint32_t slot;
        struct party *party = owner_of(word, &slot);

        if (party && ++world->n_races == world->race)
                party_take_back(party, slot);
        return atomic_compare_exchange_strong(word, expected, desired);
}
