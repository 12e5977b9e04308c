/* SPDX-License-Identifier: Apache-2.0 */
/* All of a device's memory through one pool; and memory that goes back to the driver, as another process
 * sees it. */
#include <inttypes.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/solo.h"

/* On an H200; of a smaller device as much as its pool surely has. */
#define MOST         (120 * GIB)
#define N_PIECES     60
#define GRANULE      (2 * MIB)
#define SAMPLE_BYTES 4096
#define N_ROUNDS     5

/* Other programs take and free memory of a GPU at any time. */
#define N_OTHERS_BYTES (machine_is_emulated() ? 0 : 16 * MIB)

static struct holder holder;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=1GiB", NULL);
        holder_start(&holder);
        solo_open(getuid());
}

static void stop(void)
{
        holder_end(&holder);
        solo_stop();
}

static uint64_t share_of_device(uint64_t most, uint64_t part, uint64_t whole)
{
        uint64_t n_bytes = daemon_device_bytes() / whole * part;

        return (n_bytes < most ? n_bytes : most) / GRANULE * GRANULE;
}

static unsigned char byte_of(uint64_t piece, uint64_t granule)
{
        return (unsigned char)(1 + (piece * 31 + granule) % 255);
}

static void fill(char *piece, uint64_t number, uint64_t n_bytes)
{
        for (uint64_t i = 0; i < n_bytes / GRANULE; i++)
                ck_assert_int_eq(
                        gpu_fill(gpu, piece + i * GRANULE, byte_of(number, i), SAMPLE_BYTES), 0);
}

/* Counts the sampled bytes that have changed. */
static uint64_t count_wrong(const char *piece, uint64_t number, uint64_t n_bytes)
{
        const unsigned char *staged[GPU_CELLS_MAX];
        uint64_t n_wrong = 0, n_granules = n_bytes / GRANULE;

        for (uint64_t first = 0; first < n_granules; first += GPU_CELLS_MAX) {
                uint64_t n = n_granules - first < GPU_CELLS_MAX ? n_granules - first
                                                                : GPU_CELLS_MAX;

                ck_assert_int_eq(gpu_restart(gpu), 0);
                for (uint64_t i = 0; i < n; i++) {
                        void *bytes;

                        ck_assert_int_eq(gpu_stage(gpu, SAMPLE_BYTES, &bytes), 0);
                        ck_assert_int_eq(gpu_copy_to_host(gpu, bytes, piece + (first + i) * GRANULE,
                                                          SAMPLE_BYTES),
                                         0);
                        staged[i] = bytes;
                }
                ck_assert_int_eq(gpu_synchronize(gpu), 0);
                for (uint64_t i = 0; i < n * SAMPLE_BYTES; i++)
                        n_wrong += staged[i / SAMPLE_BYTES][i % SAMPLE_BYTES] !=
                                   byte_of(number, first + i / SAMPLE_BYTES);
        }
        return n_wrong;
}

TEST(sixty_pieces_of_2_gib_or_of_what_there_is_are_right_at_once)
{
        uint64_t n_bytes = share_of_device(MOST, 7, 8) / N_PIECES / GRANULE * GRANULE;
        uint64_t n_wrong = 0;
        char *pieces[N_PIECES];

        for (uint64_t i = 0; i < N_PIECES; i++) {
                pieces[i] = must_alloc(GPUMEM_DEVICE, n_bytes);
                fill(pieces[i], i, n_bytes);
        }
        ck_assert_uint_ge(daemon_figure(FIGURE_leased), N_PIECES * n_bytes);
        for (uint64_t i = 0; i < N_PIECES; i++)
                n_wrong += count_wrong(pieces[i], i, n_bytes);
        for (uint64_t i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpumem_free(client, pieces[i], gpu_stream(gpu)), 0);
        (void)printf("# figure: %.1f GiB through one pool at once, %u pieces of %" PRIu64
                     " MiB: %" PRIu64 " wrong bytes, %u in each 2 MiB looked at\n",
                     (double)(N_PIECES * n_bytes) / (double)GIB, N_PIECES, n_bytes / MIB, n_wrong,
                     SAMPLE_BYTES);
        (void)fflush(stdout);
        ck_assert_uint_eq(n_wrong, 0);
}

static uint64_t driver_free_bytes(void)
{
        uint64_t n_free, n_total;

        ck_assert_int_eq(gpu_memory(gpu, &n_free, &n_total), 0);
        return n_free;
}

TEST(what_free_all_blocks_frees_another_process_sees_five_times)
{
        uint64_t n_bytes = share_of_device(GIB, 1, 4), n_all = 0;

        for (unsigned i = 0; i < N_ROUNDS; i++) {
                uint64_t n_freed, n_before;

                ck_assert_int_eq(holder_alloc(&holder, n_bytes, 0), 0);
                holder_free_all(&holder);
                holder_flush(&holder);
                daemon_await(FIGURE_leased, 0);
                n_before = driver_free_bytes();
                ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, &n_freed), 0);
                ck_assert_uint_ge(n_freed, n_bytes);
                ck_assert_uint_ge(driver_free_bytes() + N_OTHERS_BYTES, n_before + n_freed);
                n_all += n_freed;
        }
        (void)printf("# figure: %u times free_all_blocks: %" PRIu64
                     " MiB, as another process's cuMemGetInfo sees it at once\n",
                     N_ROUNDS, n_all / MIB);
        (void)fflush(stdout);
}

TESTS_MAIN("capacity", .limit_s = 120, .start = start, .stop = stop)
