/* SPDX-License-Identifier: Apache-2.0 */
/* Copies. They read and write when they run, in the order of their stream, so that a wrong order gives wrong bytes. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/host.h"
#include "driver/emulator/memory/span.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/submit.h"

/* Pageable memory up to this is copied before the call returns, as the real driver does. */
#define STAGED_MAX (UINT64_C(64) << 10)

/* The kind of an address, which the call determines; whether it can be used is decided when the copy runs. */
enum end_kind {
        END_DEVICE,  /* a device address, or host memory that the driver knows */
        END_PAGEABLE /* the application's own memory */
};

struct copy_end {
        enum end_kind kind;
        uint64_t address;
};

struct copy {
        struct operation operation;
        struct copy_end to, from;
        uint64_t n_bytes;
        unsigned char *staged; /* the bytes of `from`, or NULL */
};

/* How the call names an address: as the device's, as the host's, or as either. */
enum naming { NAMED_DEVICE, NAMED_HOST, NAMED_UNIFIED };

static bool is_reserved(uint64_t address)
{
        bool reserved;

        emulator_lock();
        reserved = reservation_find_locked(address);
        emulator_unlock();
        return reserved;
}

/* A look at memory that faults on nothing. */
static bool is_mapped(uint64_t address, uint64_t n_bytes)
{
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t first = address & ~(page - 1);

        return msync((void *)(uintptr_t)first, address - first + n_bytes, MS_ASYNC) == 0;
}

static struct copy_end end_of(uint64_t address, uint64_t n_bytes, enum naming naming)
{
        enum end_kind kind = END_PAGEABLE;

        if (naming == NAMED_DEVICE || is_reserved(address) || host_is_pinned(address, n_bytes) ||
            (naming == NAMED_UNIFIED && !is_mapped(address, n_bytes)))
                kind = END_DEVICE;
        return (struct copy_end){.kind = kind, .address = address};
}

static CUresult end_acquire(const struct copy_end *end, uint64_t offset, uint64_t n_bytes,
                            unsigned device, enum span_use use, struct span *ret_span)
{
        uint64_t address = end->address + offset;

        if (end->kind == END_DEVICE)
                return span_acquire(address, n_bytes, device, use, ret_span);
        *ret_span = (struct span){.bytes = (unsigned char *)(uintptr_t)address, .n_bytes = n_bytes};
        return CUDA_SUCCESS;
}

/* Copies the first piece that is contiguous on both sides. */
static CUresult copy_piece(const struct copy *copy, uint64_t offset, unsigned device,
                           uint64_t *ret_n_bytes)
{
        uint64_t n_left = copy->n_bytes - offset, n_bytes;
        struct span from, to;
        CUresult r;

        r = end_acquire(&copy->from, offset, n_left, device, SPAN_READ, &from);
        if (r != CUDA_SUCCESS)
                return r;
        r = end_acquire(&copy->to, offset, n_left, device, SPAN_WRITE, &to);
        if (r == CUDA_SUCCESS) {
                n_bytes = from.n_bytes < to.n_bytes ? from.n_bytes : to.n_bytes;
                memmove(to.bytes, from.bytes, n_bytes);
                span_release(&to);
                *ret_n_bytes = n_bytes;
        }
        span_release(&from);
        return r;
}

static CUresult copy_run(struct operation *operation, struct context *context)
{
        const struct copy *copy = (struct copy *)operation;
        uint64_t n_done = 0, offset = 0;
        CUresult r = CUDA_SUCCESS;

        for (; r == CUDA_SUCCESS && offset < copy->n_bytes; offset += n_done)
                r = copy_piece(copy, offset, context->device, &n_done);
        return r;
}

static void copy_free(struct operation *operation)
{
        free(((struct copy *)operation)->staged);
        free(operation);
}

static const struct operation_type copy_type = {.run = copy_run, .free = copy_free};

/* When a copy reads memory of the application's. */
enum staging { STAGE_SMALL, STAGE_NOTHING };

static CUresult copy_new(struct copy_end to, struct copy_end from, uint64_t n_bytes,
                         enum staging staging, struct copy **ret_copy)
{
        struct copy *copy = calloc(1, sizeof(*copy));

        if (!copy)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *copy = (struct copy){
                .operation.type = &copy_type, .to = to, .from = from, .n_bytes = n_bytes};
        if (staging == STAGE_SMALL && from.kind == END_PAGEABLE && n_bytes <= STAGED_MAX) {
                copy->staged = malloc(n_bytes);
                if (!copy->staged) {
                        free(copy);
                        return CUDA_ERROR_OUT_OF_MEMORY;
                }
                memcpy(copy->staged, (const void *)(uintptr_t)from.address, n_bytes);
                copy->from.address = (uintptr_t)copy->staged;
        }
        *ret_copy = copy;
        return CUDA_SUCCESS;
}

/* The application's own memory is not checked. */
static CUresult end_check(const struct stream *stream, const struct copy_end *end, uint64_t n_bytes,
                          enum span_use use)
{
        if (end->kind == END_PAGEABLE)
                return CUDA_SUCCESS;
        return span_check(end->address, n_bytes, stream->context->device, use);
}

/* A graph's addresses are checked when it runs. */
static CUresult ends_check(const struct stream *stream, const struct copy_end *to,
                           const struct copy_end *from, uint64_t n_bytes)
{
        CUresult r = CUDA_SUCCESS;

        if (host_is_divided(to->address, n_bytes) || host_is_divided(from->address, n_bytes))
                return CUDA_ERROR_INVALID_VALUE;
        if (!stream_is_captured(stream))
                r = end_check(stream, to, n_bytes, SPAN_WRITE);
        if (r == CUDA_SUCCESS && !stream_is_captured(stream))
                r = end_check(stream, from, n_bytes, SPAN_READ);
        return r;
}

/* Whether the call returns before the copy has run. */
enum waiting { WAIT_PAGEABLE, WAIT_ALWAYS };

static CUresult copy_submit(struct stream *stream, struct copy_end to, struct copy_end from,
                            uint64_t n_bytes, enum waiting waiting)
{
        enum staging staging;
        struct moment end;
        struct copy *copy;
        CUresult r;
        bool wait;

        r = ends_check(stream, &to, &from, n_bytes);
        if (r != CUDA_SUCCESS)
                return r;
        /* A graph reads it each time that it is launched. */
        staging = stream_is_captured(stream) ? STAGE_NOTHING : STAGE_SMALL;
        r = copy_new(to, from, n_bytes, staging, &copy);
        if (r != CUDA_SUCCESS)
                return r;
        wait = waiting == WAIT_ALWAYS || to.kind == END_PAGEABLE ||
               (from.kind == END_PAGEABLE && !copy->staged);
        r = stream_submit(stream, &copy->operation, &end);
        if (r != CUDA_SUCCESS)
                return r;
        if (wait) {
                moment_wait(&end);
                r = context_failure(stream->context);
        }
        moment_clear(&end);
        return r;
}

static CUresult copy(const char *call, uint64_t to, enum naming to_naming, uint64_t from,
                     enum naming from_naming, uint64_t n_bytes, CUstream handle,
                     enum waiting waiting)
{
        struct stream *stream;
        CUresult r = emulator_enter(call);

        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        if (n_bytes && (!to || !from))
                r = CUDA_ERROR_INVALID_VALUE;
        else if (n_bytes)
                r = copy_submit(stream, end_of(to, n_bytes, to_naming),
                                end_of(from, n_bytes, from_naming), n_bytes, waiting);
        (void)stream_unref(stream);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n_bytes)
{
        return copy(__func__, to, NAMED_DEVICE, (uintptr_t)from, NAMED_HOST, n_bytes,
                    CU_STREAM_LEGACY, WAIT_ALWAYS);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n_bytes)
{
        return copy(__func__, (uintptr_t)to, NAMED_HOST, from, NAMED_DEVICE, n_bytes,
                    CU_STREAM_LEGACY, WAIT_ALWAYS);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
        return copy(__func__, to, NAMED_DEVICE, from, NAMED_DEVICE, n_bytes, CU_STREAM_LEGACY,
                    WAIT_ALWAYS);
}

EMULATOR_API CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
        return copy(__func__, to, NAMED_UNIFIED, from, NAMED_UNIFIED, n_bytes, CU_STREAM_LEGACY,
                    WAIT_ALWAYS);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n_bytes,
                                                CUstream stream)
{
        return copy(__func__, to, NAMED_DEVICE, (uintptr_t)from, NAMED_HOST, n_bytes, stream,
                    WAIT_PAGEABLE);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n_bytes,
                                                CUstream stream)
{
        return copy(__func__, (uintptr_t)to, NAMED_HOST, from, NAMED_DEVICE, n_bytes, stream,
                    WAIT_PAGEABLE);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                                                CUstream stream)
{
        return copy(__func__, to, NAMED_DEVICE, from, NAMED_DEVICE, n_bytes, stream, WAIT_PAGEABLE);
}

EMULATOR_API CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                                            CUstream stream)
{
        return copy(__func__, to, NAMED_UNIFIED, from, NAMED_UNIFIED, n_bytes, stream,
                    WAIT_PAGEABLE);
}
