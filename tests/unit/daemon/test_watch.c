/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks NVML, over the emulated one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/backing/device/watch.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "tests/contract/contract.h"

static void on_report(void *argument)
{
        (void)argument;
}

static void start_on(const char *machine, const char *nvml_lines, struct watch **ret_watch)
{
        struct watched watched = {.wake = on_report};
        char room[NVML_LIBRARY_MAX], path[600];
        const char *directory;
        CUuuid uuid;
        FILE *file;

        contract_configure(machine);
        contract_init();
        directory = strstr(getenv("GPUMEM_EMULATOR"), "dir=");
        ck_assert_ptr_nonnull(directory);
        (void)snprintf(path, sizeof(path), "%s/nvml", directory + strlen("dir="));
        file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(nvml_lines, file), 0);
        ck_assert_int_eq(fclose(file), 0);
        ck_ok(cu.cuDeviceGetUuid(&uuid, 0));
        memcpy(watched.uuid, uuid.bytes, sizeof(watched.uuid));
        ck_assert_int_eq(watch_new(nvml_library_name(NULL, getenv("GPUMEM_CUDA_LIBRARY"), room),
                                   &watched, ret_watch),
                         0);
}

static void start(const char *nvml_lines, struct watch **ret_watch)
{
        start_on(CONTRACT_OPTIONS, nvml_lines, ret_watch);
}

static struct watch_report look(struct watch *watch)
{
        struct watch_report report = {.n_answered = 0};
        uint64_t number = watch_ask(watch);
        int n_looks = 0;

        while (report.n_answered < number) {
                contract_pause(&n_looks);
                watch_read(watch, &report);
        }
        return report;
}

TEST(one_that_answers_is_not_left_behind)
{
        struct watch_report report;
        struct watch *watch;

        start("", &watch);
        report = look(watch);
        ck_assert_int_eq(report.nvml.health, NVML_WELL);
        (void)watch_free(watch);
        ck_assert(!abandoned_threads_any());
}

/* NVML names it otherwise than a GPU, and tells errors of the GPU alone whose instance it is. */
TEST(an_instance_is_found_and_the_gpu_that_it_is_of)
{
        struct watch_report report;
        struct watch *watch;
        size_t n_bytes;

        start_on(CONTRACT_OPTIONS ",mig=1", "uncorrected=0:3\nremapped=0:1\n", &watch);
        report = look(watch);
        ck_ok(cu.cuDeviceTotalMem(&n_bytes, 0));
        ck_assert_uint_eq(report.nvml.n_total_bytes, n_bytes);
        ck_assert_uint_eq(report.nvml.mig, 1);
        ck_assert_int_eq(report.nvml.health, NVML_WORN);
        ck_assert_uint_eq(report.nvml.n_uncorrected, 3);
        ck_assert_uint_eq(report.nvml.n_xids, 0);
        (void)watch_free(watch);
}

static const struct {
        const char *nvml_lines;
        enum nvml_health health;
        bool knows_xids;
} failures[] = {
        {"nth=0:1\nresult=0:999\n", NVML_HEALTH_UNKNOWN, false},
        {"nth=0:2\nresult=0:999\n", NVML_HEALTH_UNKNOWN, false},
        {"nth=0:3\nresult=0:999\n", NVML_WELL, false},
        {"nth=0:4\nresult=0:999\n", NVML_WELL, false},
        {"nth=0:100\nresult=0:999\n", NVML_WELL, true},
};

/* Failures of: the library, the device, the set of events, registering the device. */
TEST(what_fails_at_the_start_is_not_known, .to = ARRAY_SIZE(failures))
{
        struct watch_report report;
        struct watch *watch;

        start(failures[_i].nvml_lines, &watch);
        report = look(watch);
        ck_assert_int_eq(report.nvml.health, failures[_i].health);
        ck_assert_int_eq(report.nvml.n_xids != NVML_UNKNOWN, failures[_i].knows_xids);
        (void)watch_free(watch);
}

TEST(one_that_hangs_is_left_behind_and_that_is_known)
{
        struct watch *watch;

        start("hang=0:1\n", &watch);
        ck_assert(!abandoned_threads_any());
        (void)watch_free(watch);
        ck_assert(abandoned_threads_any());
}

CONTRACT_MAIN("watch")
