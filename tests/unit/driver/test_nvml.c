/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a device's processes, as a made-up NVML tells it. */
#include "driver/nvml.h"

#include <stdbool.h>

#include "tests/suite.h"

#define N_COMPUTE 1000

static nvmlProcessInfo_t compute[N_COMPUTE], graphics[1];
static unsigned n_compute, n_graphics;

static const char *text_of(nvmlReturn_t result)
{
        return result == NVML_ERROR_INSUFFICIENT_SIZE ? "insufficient size" : "other";
}

static nvmlReturn_t tell_memory(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
        (void)device;
        (void)memory;
        return NVML_ERROR_NOT_SUPPORTED;
}

/* Where the room does not suffice, NVML tells how many there are, and none of them. */
static nvmlReturn_t tell(const nvmlProcessInfo_t *processes, unsigned n, unsigned *n_room,
                         nvmlProcessInfo_t *room)
{
        bool fits = n <= *n_room;

        *n_room = n;
        for (unsigned i = 0; fits && i < n; i++)
                room[i] = processes[i];
        return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t tell_compute(nvmlDevice_t device, unsigned *n_room, nvmlProcessInfo_t *room)
{
        (void)device;
        return tell(compute, n_compute, n_room, room);
}

static nvmlReturn_t tell_graphics(nvmlDevice_t device, unsigned *n_room, nvmlProcessInfo_t *room)
{
        (void)device;
        return tell(graphics, n_graphics, n_room, room);
}

static struct nvml_report look(void)
{
        static const struct nvml nvml = {
                .nvmlErrorString = text_of,
                .nvmlDeviceGetMemoryInfo_v2 = tell_memory,
                .nvmlDeviceGetComputeRunningProcesses_v3 = tell_compute,
                .nvmlDeviceGetGraphicsRunningProcesses_v3 = tell_graphics,
        };
        struct nvml_report report;

        nvml_look(&nvml, &(struct nvml_device){.device = NULL}, &report);
        return report;
}

/* The later, the larger. */
static void make(unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                compute[i] = (nvmlProcessInfo_t){.pid = 1 + i, .usedGpuMemory = 100 + i};
        n_compute = n;
}

static uint64_t sum(const struct nvml_report *report)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < report->n_processes; i++)
                n_bytes += report->processes[i].n_bytes;
        return n_bytes;
}

TEST(a_process_on_both_lists_is_listed_once)
{
        struct nvml_report report;

        make(3);
        graphics[0] = compute[1];
        n_graphics = 1;
        report = look();
        ck_assert_uint_eq(report.n_processes, 3);
        ck_assert_uint_eq(sum(&report), 100 + 101 + 102);
}

TEST(of_many_the_largest_are_listed)
{
        struct nvml_report report;

        make(N_COMPUTE);
        report = look();
        ck_assert_uint_eq(report.n_processes, NVML_PROCESSES_MAX);
        for (unsigned i = 0; i < report.n_processes; i++)
                ck_assert_uint_gt(report.processes[i].pid, N_COMPUTE - NVML_PROCESSES_MAX);
        ck_assert_uint_eq(sum(&report), NVML_PROCESSES_MAX * (100 + N_COMPUTE - 1) -
                                                NVML_PROCESSES_MAX * (NVML_PROCESSES_MAX - 1) / 2);
}

TEST(one_that_draws_may_be_the_largest)
{
        struct nvml_report report;

        make(NVML_PROCESSES_MAX);
        graphics[0] = (nvmlProcessInfo_t){.pid = 5000, .usedGpuMemory = 1 << 20};
        n_graphics = 1;
        report = look();
        ck_assert_uint_eq(report.n_processes, NVML_PROCESSES_MAX);
        ck_assert_uint_eq(report.processes[0].pid, 5000);
}

/* Nothing is known of how large they are. */
TEST(unknown_sizes_give_way)
{
        struct nvml_report report;

        make(NVML_PROCESSES_MAX + 1);
        compute[1].usedGpuMemory = NVML_VALUE_NOT_AVAILABLE;
        report = look();
        ck_assert_uint_eq(report.n_processes, NVML_PROCESSES_MAX);
        ck_assert_uint_eq(report.processes[1].pid, NVML_PROCESSES_MAX + 1);
}

TESTS_MAIN("nvml")
