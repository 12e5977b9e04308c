/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/mman.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"

/* Under the emulator's lock. */
static struct intervals reservations;

/* A range that the CPU cannot touch, aligned by cutting it out of a larger one. */
static int range_map(uint64_t n_bytes, uint64_t alignment, void **ret_range)
{
        uint64_t n_all, before;
        char *all;

        if (__builtin_add_overflow(n_bytes, alignment, &n_all))
                return -ENOMEM;
        all = mmap(NULL, n_all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED)
                return -ENOMEM;
        before = -(uint64_t)(uintptr_t)all & (alignment - 1);
        if (before)
                (void)munmap(all, before);
        (void)munmap(all + before + n_bytes, alignment - before);
        *ret_range = all + before;
        return 0;
}

static int range_map_at(uint64_t n_bytes, uint64_t alignment, uint64_t hint, void **ret_range)
{
        void *range;

        if (!hint || hint & (alignment - 1))
                return -EINVAL;
        range = mmap((void *)(uintptr_t)hint, n_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (range == MAP_FAILED)
                return -EEXIST;
        *ret_range = range;
        return 0;
}

CUresult reservation_new(const struct reservation *like, uint64_t n_bytes, uint64_t alignment,
                         uint64_t hint, struct reservation **ret_reservation)
{
        struct reservation *reservation;
        void *range;
        int r;

        if (alignment < EMULATOR_GRANULE)
                alignment = EMULATOR_GRANULE;
        reservation = malloc(sizeof(*reservation));
        if (!reservation)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *reservation = *like;
        r = range_map_at(n_bytes, alignment, hint, &range);
        if (r)
                r = range_map(n_bytes, alignment, &range);
        if (r) {
                free(reservation);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        reservation->range = (struct interval){.base = (uintptr_t)range, .n_bytes = n_bytes};
        emulator_lock();
        r = intervals_insert(&reservations, &reservation->range);
        emulator_unlock();
        if (r) {
                (void)munmap(range, n_bytes);
                free(reservation);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *ret_reservation = reservation;
        return CUDA_SUCCESS;
}

struct reservation *reservation_find_locked(uint64_t address)
{
        return (struct reservation *)intervals_find(&reservations, address);
}

struct reservation *reservation_of_context_locked(const struct context *context)
{
        for (size_t i = 0; i < reservations.n; i++) {
                struct reservation *reservation = (struct reservation *)reservations.items[i];

                if (reservation->kind != RESERVATION_VIRTUAL && reservation->context == context)
                        return reservation;
        }
        return NULL;
}

CUresult reservation_free(enum reservation_kind kind, uint64_t base, uint64_t n_bytes)
{
        struct reservation *reservation;
        CUresult r = CUDA_SUCCESS;

        emulator_lock();
        reservation = reservation_find_locked(base);
        if (!reservation || reservation->kind != kind || reservation->range.base != base ||
            reservation->range.n_bytes != n_bytes || reservation->n_mappings)
                r = CUDA_ERROR_INVALID_VALUE;
        else
                intervals_remove(&reservations, &reservation->range);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                return r;
        (void)munmap((void *)(uintptr_t)base, n_bytes);
        free(reservation);
        return CUDA_SUCCESS;
}
