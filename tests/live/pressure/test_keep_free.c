/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for programs that allocate from the driver themselves: unused memory of gpumemd makes room for them. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "driver/vmm.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define DEVICE_MIB 1024
#define FREE_MIB   256

/* More than what is kept free, in pieces of it. */
#define PIECE    (128 * MIB)
#define N_PIECES 5

#define IN_USE (64 * MIB)

/* Of another process, which knows no gpumemd; shared with it. */
struct stranger {
        _Atomic unsigned n_wanted, n_had;
};

static struct stranger *stranger;
static pid_t stranger_pid;

/* Ends when the test does. */
static void be_stranger(void)
{
        char reason[CUDA_REASON_MAX];
        struct cuda cuda;
        uint64_t handle;
        int fd;

        if (cuda_load(NULL, &cuda, reason))
                _exit(EXIT_FAILURE);
        for (;;) {
                if (atomic_load(&stranger->n_had) < atomic_load(&stranger->n_wanted) &&
                    vmm_create(&cuda, 0, PIECE, &handle, &fd) == 0)
                        (void)atomic_fetch_add(&stranger->n_had, 1);
                sleep_ms(1);
        }
}

/* Before this process uses the driver. */
static void stranger_start(void)
{
        stranger = mmap(NULL, sizeof(*stranger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);
        ck_assert_ptr_ne(stranger, MAP_FAILED);
        stranger_pid = fork();
        ck_assert_int_ge(stranger_pid, 0);
        if (stranger_pid == 0)
                be_stranger();
}

static void start(void)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=1GiB,reclaim_ms=0",
                                OPTIONS("--log", "info"),
                                "{\"pools\": [{\"device\": 0, \"keep_free_bytes\": \"256MiB\","
                                " \"keep_cached_bytes\": \"1GiB\"}]}");
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        stranger_start();
        solo_open(getuid());
}

static void stop(void)
{
        child_kill(stranger_pid);
        (void)munmap(stranger, sizeof(*stranger));
        solo_close();
        daemon_stop(&gpumemd);
}

static uint64_t free_bytes(void)
{
        return daemon_first_figure(FIGURE_device_free);
}

static void fill(void)
{
        void *pointers[60];
        unsigned n = 0;

        while (n < 60 && try_alloc(GPUMEM_DEVICE, 16 * MIB, &pointers[n]) == 0)
                n++;
        ck_assert_uint_ge(n, 40);
        while (n)
                must_free(pointers[--n]);
}

TEST(another_program_finds_room, NEEDS_EMULATOR)
{
        void *used = must_alloc(GPUMEM_DEVICE, IN_USE);

        fill();
        AWAIT(free_bytes() >= FREE_MIB * MIB && free_bytes() < DEVICE_MIB * MIB);
        ck_assert_uint_gt(daemon_figure(FIGURE_reserved), IN_USE);
        for (unsigned i = 1; i <= N_PIECES; i++) {
                atomic_store(&stranger->n_wanted, i);
                AWAIT(atomic_load(&stranger->n_had) == i);
        }
        /* Nothing that is in use was taken. */
        AWAIT(daemon_figure(FIGURE_leased) >= IN_USE && free_bytes() >= FREE_MIB * MIB);
        must_free(used);
}

/* While memory is in use, it stays; when it is freed, NVML has nothing new to tell. */
TEST(what_is_freed_later_makes_room_then, NEEDS_EMULATOR)
{
        void *used = must_alloc(GPUMEM_DEVICE, 900 * MIB);

        AWAIT(free_bytes() < FREE_MIB * MIB);
        sleep_ms(500);
        ck_assert_uint_ge(daemon_figure(FIGURE_leased), 900 * MIB);
        must_free(used);
        AWAIT(free_bytes() >= FREE_MIB * MIB);
}

TESTS_MAIN("keep free", .limit_s = 60, .start = start, .stop = stop)
