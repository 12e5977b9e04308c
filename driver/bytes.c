/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/bytes.h"

#include "driver/context.h"
#include "driver/stream.h"

struct job {
        CUstream stream;
        CUdeviceptr address;
        void *bytes; /* NULL: fill instead of read */
        unsigned char byte;
        size_t n_bytes;
};

static int do_job(const struct cuda *cuda, void *argument)
{
        const struct job *job = argument;
        int r;

        if (!job->bytes)
                return CUDA_CALL(cuda, cuMemsetD8Async, job->address, job->byte, job->n_bytes,
                                 job->stream);
        r = CUDA_CALL(cuda, cuMemcpyDtoHAsync, job->bytes, job->address, job->n_bytes, job->stream);
        return r ? r : stream_synchronize(cuda, job->stream);
}

static int run(const struct cuda *cuda, struct job *job)
{
        struct stream_key key;
        int ordinal, r = stream_identify(cuda, job->stream, &key, &ordinal);

        return r ? r : context_run(cuda, key.context, do_job, job);
}

int bytes_fill(const struct cuda *cuda, void *stream, uint64_t address, unsigned char byte,
               uint64_t n_bytes)
{
        struct job job = {.stream = stream, .address = address, .byte = byte, .n_bytes = n_bytes};

        return run(cuda, &job);
}

int bytes_read(const struct cuda *cuda, void *stream, uint64_t address, void *bytes,
               uint64_t n_bytes)
{
        struct job job = {.stream = stream, .address = address, .bytes = bytes, .n_bytes = n_bytes};

        return run(cuda, &job);
}

static int create_stream(const struct cuda *cuda, void *argument)
{
        return CUDA_CALL(cuda, cuStreamCreate, argument, CU_STREAM_NON_BLOCKING);
}

int bytes_begin_stream(const struct cuda *cuda, uint64_t context, void **ret_stream)
{
        CUstream stream;
        int r = context_run(cuda, context, create_stream, (void *)&stream);

        if (!r)
                *ret_stream = stream;
        return r;
}

int bytes_end_stream(const struct cuda *cuda, void *stream)
{
        int r = stream_synchronize(cuda, stream), r_end = CUDA_CALL(cuda, cuStreamDestroy, stream);

        return r ? r : r_end;
}
