/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/mman.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"

/* Under the emulator's lock. */
static struct intervals mappings;

struct mapping *mapping_find_locked(uint64_t address)
{
        return (struct mapping *)intervals_find(&mappings, address);
}

struct mapping *mapping_ref(struct mapping *mapping)
{
        (void)__atomic_add_fetch(&mapping->refs, 1, __ATOMIC_RELAXED);
        return mapping;
}

struct mapping *mapping_unref(struct mapping *mapping)
{
        if (mapping && __atomic_sub_fetch(&mapping->refs, 1, __ATOMIC_ACQ_REL) == 0) {
                (void)allocation_unref(mapping->allocation);
                free(mapping);
        }
        return NULL;
}

struct mapping *mapping_of_opened_locked(const struct context *context, const struct store *store,
                                         uint64_t serial)
{
        for (size_t i = 0; i < mappings.n; i++) {
                struct mapping *mapping = (struct mapping *)mappings.items[i];
                const struct reservation *reservation = mapping->reservation;

                if (reservation->kind == RESERVATION_OPENED && reservation->context == context &&
                    mapping->allocation->store == store &&
                    mapping->allocation->hold.serial == serial)
                        return mapping;
        }
        return NULL;
}

static CUresult mapping_insert_locked(enum reservation_kind kind, struct mapping *mapping)
{
        struct reservation *reservation = reservation_find_locked(mapping->range.base);

        if (!reservation || reservation->kind != kind ||
            interval_end(&mapping->range) > interval_end(&reservation->range))
                return CUDA_ERROR_INVALID_VALUE;
        switch (intervals_insert(&mappings, &mapping->range)) {
        case 0:
                mapping->reservation = reservation;
                reservation->n_mappings++;
                return CUDA_SUCCESS;
        case -EEXIST:
                return CUDA_ERROR_INVALID_VALUE;
        default:
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
}

CUresult mapping_new(enum reservation_kind kind, uint64_t base, struct allocation *allocation)
{
        struct mapping *mapping = calloc(1, sizeof(*mapping));
        CUresult r;

        if (!mapping)
                return CUDA_ERROR_OUT_OF_MEMORY;
        mapping->range = (struct interval){.base = base, .n_bytes = allocation->hold.n_bytes};
        mapping->refs = 1;
        mapping->allocation = allocation_ref(allocation);
        emulator_lock();
        r = mapping_insert_locked(kind, mapping);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                (void)mapping_unref(mapping);
        return r;
}

/* Whether the range is covered by whole mappings without a gap. */
static bool is_covered_locked(enum reservation_kind kind, uint64_t base, uint64_t n_bytes)
{
        uint64_t end;

        if (!n_bytes || __builtin_add_overflow(base, n_bytes, &end))
                return false;
        while (base < end) {
                const struct mapping *mapping = mapping_find_locked(base);

                if (!mapping || mapping->range.base != base || mapping->reservation->kind != kind)
                        return false;
                base = interval_end(&mapping->range);
        }
        return base == end;
}

static bool is_reserved_locked(enum reservation_kind kind, uint64_t base, uint64_t n_bytes)
{
        uint64_t end;

        if (!n_bytes || __builtin_add_overflow(base, n_bytes, &end))
                return false;
        while (base < end) {
                const struct reservation *reservation = reservation_find_locked(base);

                if (!reservation || reservation->kind != kind)
                        return false;
                base = interval_end(&reservation->range);
        }
        return true;
}

/* Whether no mapping reaches across an end of the range. */
static bool cuts_nothing_locked(uint64_t base, uint64_t n_bytes)
{
        const struct mapping *first = mapping_find_locked(base);
        const struct mapping *last = mapping_find_locked(base + n_bytes - 1);

        return (!first || first->range.base == base) &&
               (!last || interval_end(&last->range) == base + n_bytes);
}

static void *cpu_address(const struct mapping *mapping)
{
        return (void *)(uintptr_t)mapping->range.base;
}

/* Host memory shows at its device address too, once the host has access to it. */
static CUresult cpu_map(struct mapping *mapping, int protection)
{
        const struct store_hold *hold = &mapping->allocation->hold;

        if (mmap(cpu_address(mapping), hold->n_bytes, protection, MAP_SHARED | MAP_FIXED, hold->fd,
                 (off_t)hold->base) == MAP_FAILED)
                return CUDA_ERROR_OUT_OF_MEMORY;
        mapping->reach = MAPPING_CPU_TOO;
        return CUDA_SUCCESS;
}

static void cpu_unmap(struct mapping *mapping)
{
        if (mapping->reach == MAPPING_CPU_TOO)
                (void)mmap(cpu_address(mapping), mapping->range.n_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        mapping->reach = MAPPING_DEVICE_ONLY;
}

static struct mapping *take_locked(uint64_t base, uint64_t n_bytes)
{
        struct mapping *taken = NULL, *mapping;

        while ((mapping = (struct mapping *)intervals_first_in(&mappings, base, n_bytes))) {
                intervals_remove(&mappings, &mapping->range);
                mapping->reservation->n_mappings--;
                cpu_unmap(mapping);
                mapping->next = taken;
                taken = mapping;
        }
        return taken;
}

CUresult mapping_free(enum reservation_kind kind, uint64_t base, uint64_t n_bytes)
{
        struct mapping *taken = NULL;
        CUresult r = CUDA_ERROR_INVALID_VALUE;

        emulator_lock();
        if (is_reserved_locked(kind, base, n_bytes) && cuts_nothing_locked(base, n_bytes)) {
                taken = take_locked(base, n_bytes);
                r = CUDA_SUCCESS;
        }
        emulator_unlock();
        while (taken) {
                struct mapping *next = taken->next;

                (void)mapping_unref(taken);
                taken = next;
        }
        return r;
}

static bool is_host_location(const CUmemLocation *location)
{
        return location->type == CU_MEM_LOCATION_TYPE_HOST ||
               location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static bool is_host_memory(const struct mapping *mapping)
{
        return mapping->allocation->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult access_check(const CUmemAccessDesc *access)
{
        if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                return CUDA_ERROR_INVALID_VALUE;
        if (is_host_location(&access->location))
                return CUDA_SUCCESS;
        /* An unknown device is not CUDA_ERROR_INVALID_DEVICE here, unlike in cuMemCreate. */
        if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id < 0 ||
            (unsigned)access->location.id >= emulator_get()->n_devices)
                return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

static int protection_of(CUmemAccess_flags flags)
{
        if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                return PROT_READ | PROT_WRITE;
        return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_NONE;
}

static CUresult access_apply(struct mapping *mapping, const CUmemAccessDesc *access)
{
        if (is_host_location(&access->location))
                return cpu_map(mapping, protection_of(access->flags));
        mapping->access[access->location.id] = (uint8_t)access->flags;
        return CUDA_SUCCESS;
}

static CUresult set_access_locked(uint64_t base, uint64_t end, const CUmemAccessDesc *access)
{
        CUresult r = CUDA_SUCCESS;

        while (r == CUDA_SUCCESS && base < end) {
                struct mapping *mapping = mapping_find_locked(base);

                r = access_apply(mapping, access);
                base = interval_end(&mapping->range);
        }
        return r;
}

/* The CPU cannot reach a device's memory on this machine, and a device only that of its peers. */
static bool reaches(const CUmemLocation *location, const struct mapping *mapping)
{
        if (is_host_memory(mapping))
                return true;
        return !is_host_location(location) &&
               emulator_reaches((unsigned)location->id,
                                (unsigned)mapping->allocation->properties.location.id);
}

static bool is_reachable_locked(uint64_t base, uint64_t end, const CUmemAccessDesc *access)
{
        while (base < end) {
                const struct mapping *mapping = mapping_find_locked(base);

                if (!reaches(&access->location, mapping))
                        return false;
                base = interval_end(&mapping->range);
        }
        return true;
}

CUresult mapping_set_access(enum reservation_kind kind, uint64_t base, uint64_t n_bytes,
                            const CUmemAccessDesc *access, size_t n_access)
{
        CUresult r = CUDA_SUCCESS;

        for (size_t i = 0; r == CUDA_SUCCESS && i < n_access; i++)
                r = access_check(&access[i]);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        if (!is_covered_locked(kind, base, n_bytes))
                r = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; r == CUDA_SUCCESS && i < n_access; i++)
                if (!is_reachable_locked(base, base + n_bytes, &access[i]))
                        r = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; r == CUDA_SUCCESS && i < n_access; i++)
                r = set_access_locked(base, base + n_bytes, &access[i]);
        emulator_unlock();
        return r;
}
