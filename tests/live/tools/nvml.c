/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-nvml [PID]: prints NVML's numbers, a line for each GPU: the bytes in use, the number of processes,
 * and the bytes of the process with that pid, "-" if NVML does not list it. Exit status 3: no NVML. It asks
 * CUDA for the GPUs, so it is one of these processes itself, with a few MiB. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/nvml.h"

#define EXIT_NO_NVML 3

static int load(struct cuda *cuda, struct nvml *nvml)
{
        char reason[NVML_REASON_MAX > CUDA_REASON_MAX ? NVML_REASON_MAX : CUDA_REASON_MAX];
        char room[NVML_LIBRARY_MAX];
        int r = cuda_load(NULL, cuda, reason);

        if (!r)
                r = nvml_load(nvml_library_name(NULL, cuda_library_name(NULL), room), nvml, reason);
        if (r)
                (void)fprintf(stderr, "%s\n", reason);
        return r;
}

static int print_device(const struct cuda *cuda, const struct nvml *nvml, int ordinal,
                        unsigned long pid)
{
        char own[32] = "-";
        struct nvml_report report;
        struct device device;
        struct nvml_device handle;
        int r;

        r = device_describe(cuda, ordinal, &device);
        if (!r)
                r = nvml_find(nvml, device.uuid, &handle);
        if (r)
                return r;
        nvml_look(nvml, &handle, &report);
        for (unsigned i = 0; i < report.n_processes; i++) {
                if (report.processes[i].pid == pid && report.processes[i].n_bytes != NVML_UNKNOWN)
                        (void)snprintf(own, sizeof(own), "%" PRIu64, report.processes[i].n_bytes);
        }
        (void)printf("%" PRIu64 " %u %s\n", report.n_used_bytes, report.n_processes, own);
        return 0;
}

int main(int argc, char **argv)
{
        unsigned long pid = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
        struct cuda cuda;
        struct nvml nvml;
        int n_devices;

        if (load(&cuda, &nvml))
                return EXIT_NO_NVML;
        if (device_count(&cuda, &n_devices))
                return EXIT_FAILURE;
        for (int ordinal = 0; ordinal < n_devices; ordinal++) {
                int r = print_device(&cuda, &nvml, ordinal, pid);

                if (r) {
                        (void)fprintf(stderr, "device %d: result %d\n", ordinal, r);
                        return EXIT_FAILURE;
                }
        }
        return EXIT_SUCCESS;
}
