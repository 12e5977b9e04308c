/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-replay: replays an allocation trace and checks every byte that it wrote. It can also print the
 * driver's devices, or the bytes that the driver counts as used. For the demo and the live tests. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "driver/device.h"
#include "tests/demo/gpu.h"
#include "tests/demo/replay.h"

static const char help_text[] =
        "Usage: gpumem-replay [--devices N] [--pinned-every N] [--name NAME]\n"
        "                     [--meeting PATH] TRACE.gz\n"
        "       gpumem-replay --driver-count [--devices N]\n"
        "       gpumem-replay --list-devices\n"
        "Replays an allocation trace through libgpumem-client, with a pattern in every\n"
        "allocation.\n"
        "\n"
        "  --devices N       deal allocations over the first N devices; default: 1\n"
        "  --pinned-every N  every N-th allocation is pinned memory; default: 0, none\n"
        "  --name NAME       in messages; default: the trace's path\n"
        "  --meeting PATH    half-way make PATH.NAME and wait until there is PATH.go\n"
        "  --driver-count    print each device's used bytes, as the driver counts them\n"
        "  --list-devices    print each device's name and memory\n"
        "\n"
        "Exit status: 0 every byte was right, 1 wrong bytes or a failure, 2 wrong option.\n";

enum option_id {
        OPTION_DEVICES = 1,
        OPTION_PINNED_EVERY,
        OPTION_NAME,
        OPTION_MEETING,
        OPTION_DRIVER_COUNT,
        OPTION_LIST_DEVICES,
        OPTION_HELP,
};

static const struct option long_options[] = {
        {"devices", required_argument, NULL, OPTION_DEVICES},
        {"pinned-every", required_argument, NULL, OPTION_PINNED_EVERY},
        {"name", required_argument, NULL, OPTION_NAME},
        {"meeting", required_argument, NULL, OPTION_MEETING},
        {"driver-count", no_argument, NULL, OPTION_DRIVER_COUNT},
        {"list-devices", no_argument, NULL, OPTION_LIST_DEVICES},
        {"help", no_argument, NULL, OPTION_HELP},
        {NULL, 0, NULL, 0},
};

enum task { TASK_REPLAY, TASK_COUNT, TASK_LIST, TASK_HELP };

static int parse_count(const char *text, unsigned limit, unsigned *ret_count)
{
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || value > limit)
                return -EINVAL;
        *ret_count = (unsigned)value;
        return 0;
}

static int take_option(int id, const char *value, struct replay_options *options, enum task *task)
{
        switch (id) {
        case OPTION_DEVICES:
                return parse_count(value, REPLAY_DEVICES_MAX, &options->n_devices) ||
                                       !options->n_devices
                               ? -EINVAL
                               : 0;
        case OPTION_PINNED_EVERY:
                return parse_count(value, 1000000, &options->pinned_every);
        case OPTION_NAME:
                options->name = value;
                return 0;
        case OPTION_MEETING:
                options->meeting = value;
                return 0;
        case OPTION_DRIVER_COUNT:
                *task = TASK_COUNT;
                return 0;
        case OPTION_LIST_DEVICES:
                *task = TASK_LIST;
                return 0;
        case OPTION_HELP:
                *task = TASK_HELP;
                return 0;
        default:
                return -EINVAL;
        }
}

static int print_driver_count(unsigned n_devices)
{
        for (unsigned i = 0; i < n_devices; i++) {
                uint64_t n_free, n_total;
                struct gpu *gpu;
                int r;

                r = gpu_new((int)i, &gpu);
                if (r)
                        return EXIT_FAILURE;
                r = gpu_memory(gpu, &n_free, &n_total);
                gpu_free(gpu);
                if (r)
                        return EXIT_FAILURE;
                (void)printf("%" PRIu64 "\n", n_total - n_free);
        }
        return EXIT_SUCCESS;
}

static int print_devices(void)
{
        char reason[CUDA_REASON_MAX], size[SIZE_TEXT_MAX];
        struct device device;
        struct cuda cuda;
        int count;

        if (cuda_load(NULL, &cuda, reason)) {
                (void)fprintf(stderr, "no CUDA driver: %s\n", reason);
                return EXIT_FAILURE;
        }
        if (device_count(&cuda, &count))
                return EXIT_FAILURE;
        for (int ordinal = 0; ordinal < count; ordinal++) {
                if (device_describe(&cuda, ordinal, &device))
                        return EXIT_FAILURE;
                (void)printf("%s, %s\n", device.name, size_format(device.n_bytes, size));
        }
        return EXIT_SUCCESS;
}

static int print_result(const char *name, const struct replay_result *result)
{
        char checked[SIZE_TEXT_MAX], peak[SIZE_TEXT_MAX];

        (void)printf("%s: %" PRIu64 " allocations (%" PRIu64 " pinned), %.1f %% without a message, "
                     "live peak %s; %s checked, %" PRIu64 " bytes wrong\n",
                     name, result->n_allocations, result->n_pinned,
                     100.0 * (double)result->n_hits / (double)(result->n_hits + result->n_misses),
                     size_format(result->n_live_peak_bytes, peak),
                     size_format(result->n_checked_bytes, checked), result->n_wrong_bytes);
        return result->n_wrong_bytes ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int replay(const char *path, const struct replay_options *options)
{
        struct replay_result result;
        struct trace trace;
        int r = trace_read(path, &trace);

        if (r)
                return EXIT_FAILURE;
        r = replay_run(&trace, options, &result);
        trace_deinit(&trace);
        return r ? EXIT_FAILURE : print_result(options->name, &result);
}

int main(int argc, char **argv)
{
        struct replay_options options = {.n_devices = 1};
        enum task task = TASK_REPLAY;
        static char program[] = "gpumem-replay";
        int id;

        /* getopt begins its messages with argv[0]. */
        argv[0] = program;
        while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
                if (take_option(id, optarg, &options, &task)) {
                        (void)fputs("gpumem-replay: see --help\n", stderr);
                        return 2;
                }
        }
        if (task == TASK_HELP)
                return fputs(help_text, stdout) < 0;
        if (task == TASK_COUNT)
                return print_driver_count(options.n_devices);
        if (task == TASK_LIST)
                return print_devices();
        if (optind + 1 != argc) {
                (void)fputs("gpumem-replay: one trace is needed; see --help\n", stderr);
                return 2;
        }
        if (!options.name)
                options.name = argv[optind];
        return replay(argv[optind], &options);
}
