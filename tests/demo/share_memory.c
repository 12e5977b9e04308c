/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/demo/share_memory.h"

#include "base/size.h"
#include "tests/demo/gpu.h"

#define PIECE_BYTES MIB

static unsigned char byte_at(unsigned seed, uint64_t offset)
{
        return (unsigned char)(seed * 31 + offset + (offset >> 8) * 7 + (offset >> 16) * 3);
}

static void fill(unsigned char *bytes, uint64_t offset, uint64_t n_bytes, unsigned seed)
{
        for (uint64_t i = 0; i < n_bytes; i++)
                bytes[i] = byte_at(seed, offset + i);
}

static uint64_t count_wrong(const unsigned char *bytes, uint64_t offset, uint64_t n_bytes,
                            unsigned seed)
{
        uint64_t n_wrong = 0;

        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong += bytes[i] != byte_at(seed, offset + i);
        return n_wrong;
}

static uint64_t piece_bytes(const struct share_memory *memory, uint64_t offset)
{
        uint64_t n_left = memory->n_bytes - offset;

        return n_left < PIECE_BYTES ? n_left : PIECE_BYTES;
}

static int fill_device(const struct share_memory *memory, unsigned seed)
{
        for (uint64_t offset = 0; offset < memory->n_bytes; offset += PIECE_BYTES) {
                uint64_t n_bytes = piece_bytes(memory, offset);
                void *staged;
                int r;

                r = gpu_stage(memory->gpu, n_bytes, &staged);
                if (r)
                        return r;
                fill(staged, offset, n_bytes, seed);
                r = gpu_copy_to_device(memory->gpu, memory->bytes + offset, staged, n_bytes);
                if (r)
                        return r;
        }
        return gpu_synchronize(memory->gpu);
}

static int check_device(const struct share_memory *memory, unsigned seed, uint64_t *ret_n_wrong)
{
        uint64_t n_wrong = 0;

        for (uint64_t offset = 0; offset < memory->n_bytes; offset += PIECE_BYTES) {
                uint64_t n_bytes = piece_bytes(memory, offset);
                void *staged;
                int r;

                r = gpu_stage(memory->gpu, n_bytes, &staged);
                if (!r)
                        r = gpu_copy_to_host(memory->gpu, staged, memory->bytes + offset, n_bytes);
                if (!r)
                        r = gpu_synchronize(memory->gpu);
                if (r)
                        return r;
                n_wrong += count_wrong(staged, offset, n_bytes, seed);
        }
        *ret_n_wrong = n_wrong;
        return 0;
}

int share_memory_fill(const struct share_memory *memory, unsigned seed)
{
        if (memory->gpu)
                return fill_device(memory, seed);
        fill(memory->bytes, 0, memory->n_bytes, seed);
        return 0;
}

int share_memory_check(const struct share_memory *memory, unsigned seed,
                       uint64_t *ret_n_wrong_bytes)
{
        if (memory->gpu)
                return check_device(memory, seed, ret_n_wrong_bytes);
        *ret_n_wrong_bytes = count_wrong(memory->bytes, 0, memory->n_bytes, seed);
        return 0;
}
