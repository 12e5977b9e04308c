/* SPDX-License-Identifier: Apache-2.0 */
/* Device addresses: reservations, which no CPU access can enter, and what is mapped into them.
 *
 * A reservation owns its range of the process's address space, a mapping holds a count of its allocation. A mapping is
 * counted itself: one for being in the table, one for every copy under way, so that unmapping never pulls bytes from
 * under a stream's thread.
 *
 * Functions take the emulator's lock, except those named _locked, which expect it. */
#pragma once

#include <cuda.h>
#include <stdint.h>

#include "driver/emulator/machine/config.h"
#include "driver/emulator/memory/interval.h"

struct allocation;
struct context;
struct store;

/* Which call made the range: cuMemAddressReserve (the application manages it), cuMemAlloc or cuIpcOpenMemHandle. */
enum reservation_kind { RESERVATION_VIRTUAL, RESERVATION_LEGACY, RESERVATION_OPENED };

struct reservation {
        struct interval range;
        enum reservation_kind kind;
        unsigned n_mappings;
        struct context *context; /* of the latter two kinds */
        uint64_t n_requested;    /* of the latter two kinds */
        unsigned n_opens;        /* of cuIpcOpenMemHandle */
};

struct mapping {
        struct interval range;
        unsigned refs;
        enum { MAPPING_DEVICE_ONLY, MAPPING_CPU_TOO } reach;
        struct reservation *reservation;
        struct allocation *allocation;
        uint8_t access[CONFIG_DEVICES_MAX]; /* CUmemAccess_flags of each device */
        struct mapping *next;               /* while on its way out of the table */
};

/* alignment: 0, or a power of two; hint: 0, or the preferred address, if it is free. */
CUresult reservation_new(const struct reservation *like, uint64_t n_bytes, uint64_t alignment,
                         uint64_t hint, struct reservation **ret_reservation);

/* The range must be a whole reservation of this kind without mappings. */
CUresult reservation_free(enum reservation_kind kind, uint64_t base, uint64_t n_bytes);

struct reservation *reservation_find_locked(uint64_t address);

/* Some cuMemAlloc, or cuIpcOpenMemHandle, of that context, or NULL. */
struct reservation *reservation_of_context_locked(const struct context *context);

/* Maps all of the allocation at `base`; the caller keeps its count. */
CUresult mapping_new(enum reservation_kind kind, uint64_t base, struct allocation *allocation);

/* Unmaps a range, all of which must be reserved. Mappings in it must lie wholly inside; there may be none. */
CUresult mapping_free(enum reservation_kind kind, uint64_t base, uint64_t n_bytes);

/* Sets the access of adjacent whole mappings for every location, on all mappings or none. */
CUresult mapping_set_access(enum reservation_kind kind, uint64_t base, uint64_t n_bytes,
                            const CUmemAccessDesc *access, size_t n_access);

struct mapping *mapping_find_locked(uint64_t address);

/* The mapping of memory that this process has opened in the context already, or NULL. */
struct mapping *mapping_of_opened_locked(const struct context *context, const struct store *store,
                                         uint64_t serial);

struct mapping *mapping_ref(struct mapping *mapping);

/* Called without the lock: the last count may free memory. */
struct mapping *mapping_unref(struct mapping *mapping);
