/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/memory/span.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/size.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"
#include "driver/emulator/memory/host.h"

static bool is_allowed(const struct mapping *mapping, unsigned device, enum span_use use)
{
        uint8_t access = mapping->access[device];

        return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
               (access == CU_MEM_ACCESS_FLAGS_PROT_READ && use == SPAN_READ);
}

/* In a forked child, which does the work that its parent left, the application may have unmapped it. */
static bool is_there(const struct host_range *host)
{
        return emulator_is_live() ||
               msync((void *)(uintptr_t)host->range.base, host->range.n_bytes, MS_ASYNC) == 0;
}

static CUresult acquire_locked(uint64_t address, uint64_t n_bytes, unsigned device,
                               enum span_use use, struct span *ret_span)
{
        struct mapping *mapping = mapping_find_locked(address);
        const struct host_range *host;

        if (mapping && is_allowed(mapping, device, use)) {
                *ret_span = (struct span){
                        .bytes = mapping->allocation->bytes + (address - mapping->range.base),
                        .n_bytes = size_smaller(n_bytes, interval_end(&mapping->range) - address),
                        .mapping = mapping_ref(mapping)};
                return CUDA_SUCCESS;
        }
        host = mapping ? NULL : host_find_locked(address);
        if (!host ||
            (host->flags & CU_MEMHOSTREGISTER_READ_ONLY && use == SPAN_WRITE &&
             host->origin == HOST_REGISTERED) ||
            !is_there(host))
                return CUDA_ERROR_ILLEGAL_ADDRESS;
        *ret_span = (struct span){
                .bytes = (unsigned char *)(uintptr_t)address,
                .n_bytes = size_smaller(n_bytes, interval_end(&host->range) - address)};
        return CUDA_SUCCESS;
}

/* Reading takes pages of a tmpfs, too. No driver says so: to it the memory is all there. */
static CUresult back(struct span *span, uint64_t address)
{
        const struct mapping *mapping = span->mapping;
        static atomic_flag was_told = ATOMIC_FLAG_INIT;

        if (!mapping || store_back(&mapping->allocation->hold, address - mapping->range.base,
                                   span->n_bytes) == 0)
                return CUDA_SUCCESS;
        if (!atomic_flag_test_and_set(&was_told))
                (void)fprintf(stderr,
                              "emulated driver: the file system of its memory is full: work "
                              "that needs more of it fails\n");
        span_release(span);
        return CUDA_ERROR_UNKNOWN;
}

static CUresult look(uint64_t address, uint64_t n_bytes, unsigned device, enum span_use use,
                     struct span *ret_span)
{
        CUresult r;

        emulator_lock();
        r = acquire_locked(address, n_bytes, device, use, ret_span);
        emulator_unlock();
        return r;
}

CUresult span_acquire(uint64_t address, uint64_t n_bytes, unsigned device, enum span_use use,
                      struct span *ret_span)
{
        struct span span;
        CUresult r = look(address, n_bytes, device, use, &span);

        if (r == CUDA_SUCCESS)
                r = back(&span, address);
        if (r == CUDA_SUCCESS)
                *ret_span = span;
        return r;
}

void span_release(struct span *span)
{
        span->mapping = mapping_unref(span->mapping);
}

CUresult span_check(uint64_t address, uint64_t n_bytes, unsigned device, enum span_use use)
{
        while (n_bytes) {
                struct span span;

                if (look(address, n_bytes, device, use, &span) != CUDA_SUCCESS)
                        return CUDA_ERROR_INVALID_VALUE;
                address += span.n_bytes;
                n_bytes -= span.n_bytes;
                span_release(&span);
        }
        return CUDA_SUCCESS;
}
