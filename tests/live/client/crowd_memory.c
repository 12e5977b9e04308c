/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/client/crowd_memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "tests/demo/gpu.h"
#include "tests/demo/pattern.h"
#include "tests/live/client/crowd.h"

/* Both edges, and some of the cells between them. */
#define N_SAMPLES_MAX 4

#define SPOILT_BYTE 0xEE

void crowd_use(const struct crowd *crowd, const struct crowd_lane *lane)
{
        int r = lane ? gpu_use(lane->gpu) : gpu_use_none(crowd->lanes[0].gpu);

        crowd_must(crowd, r, "a context");
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static unsigned n_samples(const struct crowd_memory *memory)
{
        return (unsigned)smaller(pattern_n_cells(memory->n_bytes), N_SAMPLES_MAX);
}

static struct cell sample(const struct crowd_memory *memory, unsigned i)
{
        uint64_t n_cells = pattern_n_cells(memory->n_bytes);

        if (i >= 2 && n_cells > N_SAMPLES_MAX)
                return pattern_cell(memory->n_bytes,
                                    2 + (i - 2) * (n_cells - 2) / (N_SAMPLES_MAX - 2));
        return pattern_cell(memory->n_bytes, i);
}

static uint64_t n_sampled_bytes(const struct crowd_memory *memory)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < n_samples(memory); i++)
                n_bytes += sample(memory, i).n_bytes;
        return n_bytes;
}

static void learn_node(struct crowd *crowd, const void *bytes)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        crowd_must(crowd, gpumem_describe(crowd->client, bytes, &info), "gpumem_describe");
        crowd->node = info.place;
}

/* By its number, or as the nearest place. */
static int32_t place_of(struct crowd *crowd, const struct crowd_memory *memory)
{
        if (test_random_below(&crowd->random, 2))
                return GPUMEM_NEAREST;
        return memory->kind == CROWD_DEVICE ? memory->lane->device : crowd->node;
}

static void count_alloc(struct crowd_counts *counts, const struct crowd_memory *memory)
{
        counts->allocations++;
        counts->device += memory->kind == CROWD_DEVICE;
        counts->pinned += memory->kind == CROWD_PINNED;
        counts->unbound += memory->kind == CROWD_UNBOUND;
        counts->large += memory->n_bytes >= 16 * MIB;
}

static int try_alloc(struct crowd *crowd, struct crowd_memory *memory, uint32_t flags,
                     uint32_t wait_ms)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = memory->kind == CROWD_DEVICE ? GPUMEM_DEVICE : GPUMEM_PINNED,
                .place = place_of(crowd, memory),
                .stream = memory->lane ? gpu_stream(memory->lane->gpu) : NULL,
                .n_bytes = memory->n_bytes,
                .flags = flags | GPUMEM_AT_PLACE,
                .wait_ms = wait_ms,
        };
        void *pointer;
        int r;

        crowd_use(crowd, memory->lane);
        r = gpumem_alloc(crowd->client, &request, &pointer);
        if (r)
                return r;
        memory->bytes = pointer;
        count_alloc(&crowd->counts, memory);
        if (memory->kind != CROWD_DEVICE && crowd->node == GPUMEM_NEAREST)
                learn_node(crowd, pointer);
        return 0;
}

void crowd_alloc(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                 uint64_t n_bytes, uint32_t flags, struct crowd_memory *ret_memory)
{
        *ret_memory = (struct crowd_memory){.n_bytes = n_bytes, .kind = kind, .lane = lane};
        crowd_must(crowd, try_alloc(crowd, ret_memory, flags, CROWD_WAIT_MS), "gpumem_alloc");
}

int crowd_try_alloc(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                    uint64_t n_bytes, uint32_t wait_ms, struct crowd_memory *ret_memory)
{
        *ret_memory = (struct crowd_memory){.n_bytes = n_bytes, .kind = kind, .lane = lane};
        return try_alloc(crowd, ret_memory, 0, wait_ms);
}

bool crowd_alloc_now(struct crowd *crowd, enum crowd_kind kind, struct crowd_lane *lane,
                     uint64_t n_bytes, struct crowd_memory *ret_memory)
{
        int r = crowd_try_alloc(crowd, kind, lane, n_bytes, 0, ret_memory);

        crowd_must(crowd, r == GPUMEM_E_REFUSED ? 0 : r, "gpumem_alloc without waiting");
        return r == 0;
}

static void copy_pattern(const struct crowd *crowd, const struct crowd_memory *memory)
{
        struct gpu *gpu = memory->lane->gpu;
        unsigned char *staged;
        void *pointer;

        crowd_must(crowd, gpu_stage(gpu, n_sampled_bytes(memory), &pointer), "staging memory");
        staged = pointer;
        for (unsigned i = 0; i < n_samples(memory); i++) {
                struct cell cell = sample(memory, i);

                pattern_fill(memory->tag, cell, staged);
                crowd_must(
                        crowd,
                        gpu_copy_to_device(gpu, memory->bytes + cell.offset, staged, cell.n_bytes),
                        "a copy to the device");
                staged += cell.n_bytes;
        }
}

static void fill_device(const struct crowd *crowd, const struct crowd_memory *memory)
{
        crowd_use(crowd, memory->lane);
        if (memory->filling == CROWD_COPIED)
                copy_pattern(crowd, memory);
        else
                crowd_must(crowd,
                           gpu_fill(memory->lane->gpu, memory->bytes, (unsigned char)memory->tag,
                                    memory->n_bytes),
                           "a memset");
}

static void fill_pinned(const struct crowd_memory *memory)
{
        if (memory->filling == CROWD_SET) {
                memset(memory->bytes, (unsigned char)memory->tag, memory->n_bytes);
                return;
        }
        for (unsigned i = 0; i < n_samples(memory); i++) {
                struct cell cell = sample(memory, i);

                pattern_fill(memory->tag, cell, memory->bytes + cell.offset);
        }
}

void crowd_fill(const struct crowd *crowd, struct crowd_memory *memory, enum crowd_filling filling,
                uint64_t tag)
{
        memory->filling = filling;
        memory->tag = tag;
        if (memory->kind == CROWD_DEVICE)
                fill_device(crowd, memory);
        else
                fill_pinned(memory);
}

static uint64_t count_wrong(const struct crowd_memory *memory, struct cell cell,
                            const unsigned char *bytes)
{
        uint64_t n_wrong = 0;

        if (memory->filling == CROWD_COPIED)
                return pattern_count_wrong(memory->tag, cell, bytes);
        for (uint64_t i = 0; i < cell.n_bytes; i++)
                n_wrong += bytes[i] != (unsigned char)memory->tag;
        return n_wrong;
}

static void compare(struct crowd *crowd, const struct crowd_memory *memory, struct cell cell,
                    const unsigned char *bytes)
{
        uint64_t n_wrong = count_wrong(memory, cell, bytes);

        if (n_wrong)
                crowd_fail(crowd,
                           "%" PRIu64 " of %" PRIu64 " bytes at %" PRIu64 " are wrong in %" PRIu64
                           " bytes at %p, kind %d, filled %d",
                           n_wrong, cell.n_bytes, cell.offset, memory->n_bytes,
                           (void *)memory->bytes, (int)memory->kind, (int)memory->filling);
        crowd->counts.checked_bytes += cell.n_bytes;
}

static void check_device(struct crowd *crowd, const struct crowd_memory *memory)
{
        struct gpu *gpu = memory->lane->gpu;
        unsigned char *staged;
        uint64_t n_staged = 0;
        void *pointer;

        crowd_use(crowd, memory->lane);
        crowd_must(crowd, gpu_stage(gpu, n_sampled_bytes(memory), &pointer), "staging memory");
        staged = pointer;
        for (unsigned i = 0; i < n_samples(memory); i++) {
                struct cell cell = sample(memory, i);

                crowd_must(crowd,
                           gpu_copy_to_host(gpu, staged + n_staged, memory->bytes + cell.offset,
                                            cell.n_bytes),
                           "a copy to the host");
                n_staged += cell.n_bytes;
        }
        crowd_must(crowd, gpu_synchronize(gpu), "waiting for a stream");
        n_staged = 0;
        for (unsigned i = 0; i < n_samples(memory); i++) {
                struct cell cell = sample(memory, i);

                compare(crowd, memory, cell, staged + n_staged);
                n_staged += cell.n_bytes;
        }
}

void crowd_check(struct crowd *crowd, const struct crowd_memory *memory)
{
        if (memory->filling == CROWD_UNFILLED)
                return;
        crowd->counts.checked++;
        if (memory->kind == CROWD_DEVICE) {
                check_device(crowd, memory);
                return;
        }
        for (unsigned i = 0; i < n_samples(memory); i++) {
                struct cell cell = sample(memory, i);

                compare(crowd, memory, cell, memory->bytes + cell.offset);
        }
}

/* Work that is not done when the memory is freed: if another process got the memory too early, this would
 * spoil its bytes. Not for memory that the stream may not reach. */
static void leave_work(struct crowd *crowd, const struct crowd_memory *memory,
                       const struct crowd_lane *lane)
{
        uint64_t n_bytes = smaller(memory->n_bytes, CROWD_SCRATCH_BYTES);
        int r;

        if (memory->kind == CROWD_UNBOUND || test_random_below(&crowd->random, 4) ||
            (memory->kind == CROWD_DEVICE && memory->lane->device != lane->device))
                return;
        if (memory->kind == CROWD_DEVICE)
                r = gpu_fill(lane->gpu, memory->bytes, SPOILT_BYTE, n_bytes);
        else
                r = gpu_copy_to_host(lane->gpu, memory->bytes, lane->scratch, n_bytes);
        crowd_must(crowd, r, "work on what is freed");
        crowd->counts.freed_busy++;
}

static void free_in(struct crowd *crowd, const struct crowd_memory *memory,
                    const struct crowd_lane *lane)
{
        if (lane)
                leave_work(crowd, memory, lane);
        crowd_must(crowd,
                   gpumem_free(crowd->client, memory->bytes, lane ? gpu_stream(lane->gpu) : NULL),
                   "gpumem_free");
        if (lane == memory->lane)
                crowd->counts.freed_in_order++;
        else
                crowd->counts.freed_elsewhere++;
}

static void free_anywhere(struct crowd *crowd, const struct crowd_memory *memory)
{
        struct crowd_lane *lane = &crowd->lanes[test_random_below(&crowd->random, crowd->n_lanes)];

        if (memory->lane)
                crowd_must(crowd, gpu_order_after(lane->gpu, memory->lane->gpu), "an event");
        else
                crowd_use(crowd, lane);
        free_in(crowd, memory, lane);
}

static void free_synchronized(struct crowd *crowd, const struct crowd_memory *memory)
{
        if (memory->lane)
                leave_work(crowd, memory, memory->lane);
        crowd_must(crowd, gpumem_free_sync(crowd->client, memory->bytes), "gpumem_free_sync");
        crowd->counts.freed_synchronized++;
}

void crowd_free(struct crowd *crowd, const struct crowd_memory *memory)
{
        uint64_t way = test_random_below(&crowd->random, 8);

        crowd_check(crowd, memory);
        crowd_use(crowd, memory->lane);
        if (way == 0)
                free_synchronized(crowd, memory);
        else if (way == 1)
                free_anywhere(crowd, memory);
        else
                free_in(crowd, memory, memory->lane);
}
