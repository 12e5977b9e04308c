/* gpumem-nvml [PID]: what NVML counts, a line a GPU: the bytes in use, how many processes it lists,
 * and the bytes of the one with that pid, "-" if it does not say. Exit status 3: no NVML here.
 * Its header is on few machines: what is used of it is declared here. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define LIBRARY        "libnvidia-ml.so.1"
#define EXIT_NO_NVML   3
#define PROCESSES_MAX  256
#define BYTES_NOT_SAID (~0ULL)

struct nvml_memory {
        unsigned version;
        unsigned long long total, reserved, free, used;
};

#define MEMORY_VERSION ((unsigned)sizeof(struct nvml_memory) | 2u << 24)

struct nvml_process {
        unsigned pid;
        unsigned long long n_bytes;
        unsigned gpu_instance, compute_instance;
};

struct nvml {
        int (*init)(void);
        int (*count)(unsigned *ret_count);
        int (*device)(unsigned index, void **ret_device);
        int (*memory)(void *device, struct nvml_memory *memory);
        int (*processes)(void *device, unsigned *n, struct nvml_process *ret_processes);
};

static const struct {
        const char *symbol;
        size_t offset;
} calls[] = {
        {"nvmlInit_v2", offsetof(struct nvml, init)},
        {"nvmlDeviceGetCount_v2", offsetof(struct nvml, count)},
        {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, device)},
        {"nvmlDeviceGetMemoryInfo_v2", offsetof(struct nvml, memory)},
        {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct nvml, processes)},
};

static int complain(const char *call, int result)
{
        (void)fprintf(stderr, "%s gives %d\n", call, result);
        return -EIO;
}

static int load(struct nvml *ret_nvml)
{
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        struct nvml nvml;

        if (!library) {
                (void)fprintf(stderr, "%s\n", dlerror());
                return -ENOENT;
        }
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                void *function = dlsym(library, calls[i].symbol);

                if (!function) {
                        (void)fprintf(stderr, "%s has no %s\n", LIBRARY, calls[i].symbol);
                        return -ENOENT;
                }
                memcpy((char *)&nvml + calls[i].offset, &function, sizeof(function));
        }
        *ret_nvml = nvml;
        return 0;
}

static int print_device(const struct nvml *nvml, unsigned index, unsigned long pid)
{
        struct nvml_memory memory = {.version = MEMORY_VERSION};
        struct nvml_process processes[PROCESSES_MAX];
        unsigned n = PROCESSES_MAX;
        char own[32] = "-";
        void *device;
        int r;

        r = nvml->device(index, &device);
        if (r)
                return complain("nvmlDeviceGetHandleByIndex", r);
        r = nvml->memory(device, &memory);
        if (r)
                return complain("nvmlDeviceGetMemoryInfo", r);
        /* Not everybody may ask. */
        r = nvml->processes(device, &n, processes);
        if (r) {
                (void)complain("nvmlDeviceGetComputeRunningProcesses", r);
                n = 0;
        }
        for (unsigned i = 0; i < n; i++) {
                if (processes[i].pid == pid && processes[i].n_bytes != BYTES_NOT_SAID)
                        (void)snprintf(own, sizeof(own), "%llu", processes[i].n_bytes);
        }
        (void)printf("%llu %u %s\n", memory.used, n, own);
        return 0;
}

int main(int argc, char **argv)
{
        unsigned long pid = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
        struct nvml nvml;
        unsigned n_devices;
        int r;

        if (load(&nvml))
                return EXIT_NO_NVML;
        r = nvml.init();
        if (!r)
                r = nvml.count(&n_devices);
        if (r) {
                (void)complain("nvmlInit", r);
                return EXIT_NO_NVML;
        }
        for (unsigned index = 0; index < n_devices; index++) {
                if (print_device(&nvml, index, pid))
                        return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}
