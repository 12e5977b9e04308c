/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/worker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/demo/gpu.h"
#include "tests/demo/pattern.h"
#include "tests/live/client/crowd.h"
#include "tests/soak/faulty.h"
#include "tests/soak/graphs.h"

#define N_LANES 3

/* Every doubling from 512 bytes has the same probability, for small sizes and for large ones. */
#define SMALL_BYTES       UINT64_C(512)
#define N_SMALL_DOUBLINGS 11
#define LARGE_BYTES       (2 * MIB)
#define N_LARGE_DOUBLINGS 4
#define PINNED_BYTES_MAX  (256 * KIB)

/* The most that a worker wants at a time; four of these exceed the memory. */
#define WANTED_BYTES_MAX (96 * MIB)

#define SET_BYTES_MAX (64 * KIB)
#define N_READS_MAX   16
#define WAIT_MS_MAX   300
#define PAUSE_MS_MAX  60

#define ONE_IN_LARGE    12
#define ONE_IN_PINNED   20
#define ONE_IN_READ     3
#define ONE_IN_NEW_WISH 80
#define ONE_IN_FLUSHED  250
#define ONE_IN_PAUSES   150
#define ONE_IN_CAPTURES 60
#define ONE_IN_REPLAYS  30
#define ONE_IN_WARM_UPS 120
#define STEPS_A_LINE    16

/* Read by another stream, of memory that is freed before any call waits for the read. */
struct reading {
        uint64_t tag;
        struct cell cell;
        enum crowd_filling filling;
        const unsigned char *staged;
};

struct soak {
        struct crowd crowd;
        struct graphs graphs;
        struct gpu *reader;
        struct reading readings[N_READS_MAX];
        unsigned n_readings;
        uint64_t n_wanted_bytes;
        uint64_t n_read, n_refused, n_flushes, n_pauses;
        int counts_fd;
};

static volatile sig_atomic_t ending;

static void on_term(int number)
{
        ending = number;
}

static uint64_t below(struct soak *soak, uint64_t limit)
{
        return test_random_below(&soak->crowd.random, limit);
}

static bool one_in(struct soak *soak, uint64_t n)
{
        return below(soak, n) == 0;
}

static uint64_t draw_bytes(struct soak *soak, uint64_t n_least, unsigned n_doublings)
{
        uint64_t floor = n_least << below(soak, n_doublings);

        return floor + below(soak, floor);
}

static void write_counts(const struct soak *soak)
{
        const struct crowd_counts *counts = &soak->crowd.counts;
        char line[320];
        int n = snprintf(line, sizeof(line),
                         "%20" PRIu64 " %20" PRIu64 " %20" PRIu64 " %20" PRIu64 " %20" PRIu64
                         " %20" PRIu64 " %20" PRIu64 " %20" PRIu64 " %20" PRIu64 " %20" PRIu64 "\n",
                         counts->allocations, counts->checked, counts->checked_bytes, soak->n_read,
                         soak->n_refused + soak->graphs.n_refused, soak->n_flushes, soak->n_pauses,
                         soak->graphs.n_captures, soak->graphs.n_replays, faulty_count());

        if (pwrite(soak->counts_fd, line, (size_t)n, 0) != n)
                crowd_fail(&soak->crowd, "the counts cannot be written: %s", strerror(errno));
}

static uint64_t count_wrong(const struct reading *reading)
{
        uint64_t n = 0;

        if (reading->filling == CROWD_COPIED)
                return pattern_count_wrong(reading->tag, reading->cell, reading->staged);
        for (uint64_t i = 0; i < reading->cell.n_bytes; i++)
                n += reading->staged[i] != (unsigned char)reading->tag;
        return n;
}

static void finish_reading(struct soak *soak)
{
        struct crowd *crowd = &soak->crowd;

        crowd_must(crowd, gpu_use(soak->reader), "a context");
        crowd_must(crowd, gpu_synchronize(soak->reader), "waiting for a stream");
        for (unsigned i = 0; i < soak->n_readings; i++) {
                uint64_t n_wrong = count_wrong(&soak->readings[i]);

                if (n_wrong)
                        crowd_fail(crowd, "%" PRIu64 " bytes are wrong that another stream read",
                                   n_wrong);
        }
        soak->n_read += soak->n_readings;
        soak->n_readings = 0;
        crowd_must(crowd, gpu_restart(soak->reader), "staging memory");
}

/* One stream writes and another reads; the free is in the first one's order. */
static void read_and_free(struct soak *soak, const struct crowd_memory *memory)
{
        struct crowd *crowd = &soak->crowd;
        uint64_t n_cells = pattern_n_cells(memory->n_bytes);
        struct reading *reading = &soak->readings[soak->n_readings++];
        void *staged;

        *reading = (struct reading){.tag = memory->tag, .filling = memory->filling};
        reading->cell = pattern_cell(memory->n_bytes, n_cells > 2 ? 1 : 0);
        crowd_must(crowd, gpu_order_after(soak->reader, memory->lane->gpu), "an event");
        crowd_must(crowd, gpumem_record_use(crowd->client, memory->bytes, gpu_stream(soak->reader)),
                   "gpumem_record_use");
        crowd_must(crowd, gpu_stage(soak->reader, reading->cell.n_bytes, &staged),
                   "staging memory");
        reading->staged = staged;
        crowd_must(crowd,
                   gpu_copy_to_host(soak->reader, staged, memory->bytes + reading->cell.offset,
                                    reading->cell.n_bytes),
                   "a copy to the host");
        crowd_use(crowd, memory->lane);
        crowd_must(crowd, gpumem_free(crowd->client, memory->bytes, gpu_stream(memory->lane->gpu)),
                   "gpumem_free");
        if (soak->n_readings == N_READS_MAX)
                finish_reading(soak);
}

static void free_one(struct soak *soak)
{
        struct crowd *crowd = &soak->crowd;
        unsigned i = (unsigned)below(soak, crowd->n_live);
        struct crowd_memory memory = crowd->live[i];

        crowd->live[i] = crowd->live[--crowd->n_live];
        crowd->n_live_bytes -= memory.n_bytes;
        if (memory.kind == CROWD_DEVICE && one_in(soak, ONE_IN_READ))
                read_and_free(soak, &memory);
        else
                crowd_free(crowd, &memory);
}

static void shrink(struct soak *soak, uint64_t n_bytes)
{
        while (soak->crowd.n_live && soak->crowd.n_live_bytes > n_bytes)
                free_one(soak);
}

static void fill(struct soak *soak, struct crowd_memory *memory)
{
        bool is_set = memory->n_bytes <= SET_BYTES_MAX && one_in(soak, 3);

        crowd_fill(&soak->crowd, memory, is_set ? CROWD_SET : CROWD_COPIED,
                   crowd_tag(&soak->crowd));
}

static bool is_refusal(int r)
{
        return r == GPUMEM_E_REFUSED || r == GPUMEM_E_TIMED_OUT || r == GPUMEM_E_DEVICE_FULL;
}

static void alloc_one(struct soak *soak, enum crowd_kind kind, uint64_t n_bytes)
{
        struct crowd *crowd = &soak->crowd;
        struct crowd_lane *lane = &crowd->lanes[below(soak, crowd->n_lanes)];
        uint32_t wait_ms = one_in(soak, 2) ? (uint32_t)below(soak, WAIT_MS_MAX) : 0;
        struct crowd_memory *memory = &crowd->live[crowd->n_live];
        int r = crowd_try_alloc(crowd, kind, lane, n_bytes, wait_ms, memory);

        if (is_refusal(r)) {
                soak->n_refused++;
                shrink(soak, crowd->n_live_bytes / 2);
                return;
        }
        crowd_must(crowd, r, "gpumem_alloc");
        crowd->n_live++;
        crowd->n_live_bytes += n_bytes;
        fill(soak, memory);
}

static void pause_a_while(struct soak *soak)
{
        shrink(soak, 0);
        soak->n_pauses++;
        (void)clock_nanosleep(
                CLOCK_MONOTONIC, 0,
                &(struct timespec){.tv_nsec = 1000000 * (long)below(soak, PAUSE_MS_MAX)}, NULL);
}

/* Half of the captures free allocations from before them. */
static void capture_one(struct soak *soak)
{
        struct crowd *crowd = &soak->crowd;
        struct crowd_lane *lane = &crowd->lanes[below(soak, crowd->n_lanes)];
        struct crowd_memory memory;
        unsigned i = 0;

        if (crowd->n_live)
                i = (unsigned)below(soak, crowd->n_live);
        if (!crowd->n_live || crowd->live[i].kind != CROWD_DEVICE || one_in(soak, 2)) {
                graphs_capture(&soak->graphs, lane, NULL);
                return;
        }
        memory = crowd->live[i];
        crowd_check(crowd, &memory);
        crowd->live[i] = crowd->live[--crowd->n_live];
        crowd->n_live_bytes -= memory.n_bytes;
        graphs_capture(&soak->graphs, lane, &memory);
}

static void use_graphs(struct soak *soak)
{
        if (one_in(soak, ONE_IN_CAPTURES))
                capture_one(soak);
        if (one_in(soak, ONE_IN_REPLAYS))
                graphs_replay(&soak->graphs);
        if (one_in(soak, ONE_IN_WARM_UPS))
                graphs_warm_up(&soak->graphs, &soak->crowd.lanes[below(soak, soak->crowd.n_lanes)]);
}

static void step(struct soak *soak)
{
        struct crowd *crowd = &soak->crowd;
        enum crowd_kind kind = one_in(soak, ONE_IN_PINNED) ? CROWD_PINNED : CROWD_DEVICE;
        uint64_t n_bytes = kind == CROWD_DEVICE && one_in(soak, ONE_IN_LARGE)
                                   ? draw_bytes(soak, LARGE_BYTES, N_LARGE_DOUBLINGS)
                                   : draw_bytes(soak, SMALL_BYTES, N_SMALL_DOUBLINGS);

        if (one_in(soak, ONE_IN_NEW_WISH))
                soak->n_wanted_bytes = below(soak, WANTED_BYTES_MAX);
        if (one_in(soak, ONE_IN_PAUSES))
                pause_a_while(soak);
        if (one_in(soak, ONE_IN_FLUSHED)) {
                crowd_must(crowd, gpumem_flush(crowd->client, NULL), "gpumem_flush");
                soak->n_flushes++;
        }
        if (kind == CROWD_PINNED && n_bytes > PINNED_BYTES_MAX)
                n_bytes = PINNED_BYTES_MAX;
        if (crowd->n_live == CROWD_LIVE_MAX)
                free_one(soak);
        shrink(soak, soak->n_wanted_bytes);
        alloc_one(soak, kind, n_bytes);
        use_graphs(soak);
        if (crowd->serial++ % STEPS_A_LINE == 0)
                write_counts(soak);
}

static void open_lanes(struct soak *soak)
{
        struct crowd *crowd = &soak->crowd;

        for (; crowd->n_lanes < N_LANES; crowd->n_lanes++)
                crowd_must(crowd, gpu_new(0, &crowd->lanes[crowd->n_lanes].gpu), "a device");
        crowd_must(crowd, gpu_new(0, &soak->reader), "a device");
}

/* The source of work that is not done when its memory is freed. */
static void alloc_scratch(struct soak *soak, struct crowd_memory *ret_scratch)
{
        struct crowd *crowd = &soak->crowd;

        for (unsigned i = 0; i < crowd->n_lanes; i++) {
                int r = GPUMEM_E_DEVICE_FULL;

                while (r == GPUMEM_E_DEVICE_FULL)
                        r = crowd_try_alloc(crowd, CROWD_DEVICE, &crowd->lanes[i],
                                            CROWD_SCRATCH_BYTES, CROWD_WAIT_MS, &ret_scratch[i]);
                crowd_must(crowd, r, "gpumem_alloc");
                crowd_fill(crowd, &ret_scratch[i], CROWD_SET, 0);
                crowd->lanes[i].scratch = ret_scratch[i].bytes;
        }
}

static void run(struct soak *soak)
{
        struct crowd_memory scratch[N_LANES];

        alloc_scratch(soak, scratch);
        while (!ending)
                step(soak);
        shrink(soak, 0);
        finish_reading(soak);
        graphs_drop_all(&soak->graphs);
        for (unsigned i = 0; i < N_LANES; i++)
                crowd_free(&soak->crowd, &scratch[i]);
        write_counts(soak);
}

static void open_counts(struct soak *soak, const char *path)
{
        /* The script may send the signal as soon as the file exists. */
        if (signal(SIGTERM, on_term) == SIG_ERR)
                crowd_fail(&soak->crowd, "SIGTERM: %s", strerror(errno));
        soak->counts_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (soak->counts_fd < 0)
                crowd_fail(&soak->crowd, "%s: %s", path, strerror(errno));
}

void worker_run(unsigned index, uint64_t seed, const char *counts_path)
{
        struct soak soak = {.crowd = {.index = index, .seed = seed, .node = GPUMEM_NEAREST}};

        soak.crowd.random.state = crowd_tag(&soak.crowd);
        open_counts(&soak, counts_path);
        crowd_must(&soak.crowd, gpumem_connect(NULL, &soak.crowd.client), "gpumem_connect");
        open_lanes(&soak);
        graphs_init(&soak.graphs, &soak.crowd);
        run(&soak);
        gpumem_disconnect(soak.crowd.client);
        for (unsigned i = 0; i < N_LANES; i++)
                gpu_free(soak.crowd.lanes[i].gpu);
        gpu_free(soak.reader);
        (void)close(soak.counts_fd);
}
