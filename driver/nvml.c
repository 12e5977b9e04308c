/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/uuid.h"
#include "gpumem.h"

#define CUDA_EMULATED "libcuda-emu.so"
#define NVML_EMULATED "libnvml-emu.so"

#define EVENTS_AT_ONCE 64

/* NVML lists none if there are more. */
#define PROCESSES_ASKED 1024

enum need { NEED_REQUIRED, NEED_OPTIONAL };

static const struct {
        const char *symbol;
        size_t offset;
        enum need need;
} calls[] = {
#define NVML_REQUIRED(call) {#call, offsetof(struct nvml, call), NEED_REQUIRED},
#define NVML_OPTIONAL(call) {#call, offsetof(struct nvml, call), NEED_OPTIONAL},
#include "driver/nvml.def"
#undef NVML_REQUIRED
#undef NVML_OPTIONAL
};

const char *nvml_library_name(const char *library, const char *cuda_library,
                              char room[static NVML_LIBRARY_MAX])
{
        const char *named = library ? library : secure_getenv("GPUMEM_NVML_LIBRARY");
        const char *base = strrchr(cuda_library, '/');
        int n_folder = base ? (int)(base + 1 - cuda_library) : 0;

        if (named && *named)
                return named;
        if (strcmp(cuda_library + n_folder, CUDA_EMULATED) != 0 ||
            n_folder + sizeof(NVML_EMULATED) > NVML_LIBRARY_MAX)
                return NVML_LIBRARY_DEFAULT;
        (void)snprintf(room, NVML_LIBRARY_MAX, "%.*s" NVML_EMULATED, n_folder, cuda_library);
        return room;
}

static int resolve(void *handle, const char *name, struct nvml *ret_nvml, char *ret_reason)
{
        struct nvml nvml = {0};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                void *function = dlsym(handle, calls[i].symbol);

                if (!function && calls[i].need == NEED_REQUIRED) {
                        (void)snprintf(ret_reason, NVML_REASON_MAX, "%s has no %s", name,
                                       calls[i].symbol);
                        return GPUMEM_E_NO_DRIVER;
                }
                memcpy((char *)&nvml + calls[i].offset, &function, sizeof(function));
        }
        *ret_nvml = nvml;
        return 0;
}

/* The library is never unloaded, as the driver is not. */
int nvml_load(const char *name, struct nvml *ret_nvml, char ret_reason[static NVML_REASON_MAX])
{
        void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        nvmlReturn_t result;
        struct nvml nvml;
        int r;

        if (!handle) {
                (void)snprintf(ret_reason, NVML_REASON_MAX, "%s", dlerror());
                return GPUMEM_E_NO_DRIVER;
        }
        r = resolve(handle, name, &nvml, ret_reason);
        if (r)
                return r;
        result = nvml.nvmlInit_v2();
        if (result != NVML_SUCCESS) {
                (void)snprintf(ret_reason, NVML_REASON_MAX, "%s: nvmlInit: %s (%d)", name,
                               nvml.nvmlErrorString(result), result);
                return GPUMEM_E_NO_DRIVER;
        }
        *ret_nvml = nvml;
        return 0;
}

static nvmlReturn_t note(const struct nvml *nvml, const char *call, nvmlReturn_t result)
{
        if (result != NVML_SUCCESS)
                log_debug("%s: %s (%d)", call, nvml->nvmlErrorString(result), result);
        return result;
}

/* Calls a function, with a line in the debug log for a failure; a missing function gives "not supported". */
#define CALL(nvml, call, ...) \
        ((nvml)->call ? note((nvml), #call, (nvml)->call(__VA_ARGS__)) : NVML_ERROR_NOT_SUPPORTED)

static int find(const struct nvml *nvml, enum uuid_kind kind,
                const uint8_t uuid[static DEVICE_UUID_BYTES], nvmlDevice_t *ret_device)
{
        char text[UUID_TEXT_MAX];

        uuid_print(kind, uuid, text);
        switch (CALL(nvml, nvmlDeviceGetHandleByUUID, text, ret_device)) {
        case NVML_SUCCESS:
                return 0;
        case NVML_ERROR_NOT_FOUND:
        case NVML_ERROR_INVALID_ARGUMENT:
                return GPUMEM_E_NO_POOL;
        default:
                return -EIO;
        }
}

/* CUDA gives the UUID of an instance as it gives a GPU's. Only NVML's answer tells which it is. */
int nvml_find(const struct nvml *nvml, const uint8_t uuid[static DEVICE_UUID_BYTES],
              struct nvml_device *ret_device)
{
        struct nvml_device found = {.device = NULL};
        int r = find(nvml, UUID_OF_GPU, uuid, &found.device);
        bool is_instance = r == GPUMEM_E_NO_POOL;

        if (is_instance)
                r = find(nvml, UUID_OF_MIG, uuid, &found.device);
        if (r)
                return r;
        if (!is_instance ||
            CALL(nvml, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, found.device, &found.whole))
                found.whole = found.device;
        *ret_device = found;
        return 0;
}

void nvml_report_init(struct nvml_report *report)
{
        memset(report, 0, sizeof(*report));
        report->health = NVML_HEALTH_UNKNOWN;
        report->n_total_bytes = NVML_UNKNOWN;
        report->n_used_bytes = NVML_UNKNOWN;
        report->n_free_bytes = NVML_UNKNOWN;
        report->n_uncorrected = NVML_UNKNOWN;
        report->mig = NVML_UNKNOWN;
        report->n_xids = NVML_UNKNOWN;
        report->last_xid = NVML_UNKNOWN;
}

static enum nvml_health health_of_result(nvmlReturn_t result)
{
        switch (result) {
        case NVML_SUCCESS:
                return NVML_WELL;
        case NVML_ERROR_GPU_IS_LOST:
                return NVML_LOST;
        case NVML_ERROR_RESET_REQUIRED:
                return NVML_NEEDS_RESET;
        default:
                return NVML_HEALTH_UNKNOWN;
        }
}

static enum nvml_health health_of_action(unsigned action)
{
        switch (action) {
        case NVML_GPU_RECOVERY_ACTION_NONE:
                return NVML_WELL;
        case NVML_GPU_RECOVERY_ACTION_NODE_REBOOT:
                return NVML_NEEDS_REBOOT;
        case NVML_GPU_RECOVERY_ACTION_DRAIN_P2P:
        case NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
                return NVML_WORN;
        default:
                return NVML_NEEDS_RESET;
        }
}

static void worsen(struct nvml_report *report, enum nvml_health health)
{
        if (health > report->health)
                report->health = health;
}

static void look_at_memory(const struct nvml *nvml, nvmlDevice_t device, struct nvml_report *report)
{
        nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
        nvmlReturn_t result = CALL(nvml, nvmlDeviceGetMemoryInfo_v2, device, &memory);

        report->health = health_of_result(result);
        if (result != NVML_SUCCESS)
                return;
        report->n_total_bytes = memory.total;
        report->n_free_bytes = memory.free;
        report->n_used_bytes = memory.used;
}

/* Later drivers tell the recovery action; for others it is derived from other signs. */
static void look_at_errors(const struct nvml *nvml, nvmlDevice_t device, struct nvml_report *report)
{
        nvmlFieldValue_t action = {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION};
        unsigned n_corrected, n_uncorrected, is_pending, has_failed;
        unsigned long long n_errors;

        if (!CALL(nvml, nvmlDeviceGetFieldValues, device, 1, &action) &&
            action.nvmlReturn == NVML_SUCCESS && action.valueType == NVML_VALUE_TYPE_UNSIGNED_INT)
                worsen(report, health_of_action(action.value.uiVal));
        if (!CALL(nvml, nvmlDeviceGetRemappedRows, device, &n_corrected, &n_uncorrected,
                  &is_pending, &has_failed) &&
            (is_pending || has_failed))
                worsen(report, NVML_WORN);
        if (!CALL(nvml, nvmlDeviceGetTotalEccErrors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                  NVML_VOLATILE_ECC, &n_errors))
                report->n_uncorrected = n_errors;
}

static void look_at_mig(const struct nvml *nvml, nvmlDevice_t device, struct nvml_report *report)
{
        unsigned mode, pending;
        nvmlReturn_t result = CALL(nvml, nvmlDeviceGetMigMode, device, &mode, &pending);

        if (result == NVML_SUCCESS)
                report->mig = mode == NVML_DEVICE_MIG_ENABLE;
}

/* Unknown sizes count as the smallest. */
static bool is_smaller(uint64_t n_bytes, uint64_t n_other_bytes)
{
        return n_other_bytes != NVML_UNKNOWN &&
               (n_bytes == NVML_UNKNOWN || n_bytes < n_other_bytes);
}

/* If the list is full, a larger process takes the place of the smallest. NULL: there is no smaller one. */
static struct nvml_process *find_place(struct nvml_report *report, uint64_t n_bytes)
{
        struct nvml_process *smallest = &report->processes[0];

        if (report->n_processes < NVML_PROCESSES_MAX)
                return &report->processes[report->n_processes++];
        for (unsigned i = 1; i < NVML_PROCESSES_MAX; i++) {
                if (is_smaller(report->processes[i].n_bytes, smallest->n_bytes))
                        smallest = &report->processes[i];
        }
        return is_smaller(smallest->n_bytes, n_bytes) ? smallest : NULL;
}

static void add_process(struct nvml_report *report, const nvmlProcessInfo_t *process)
{
        uint64_t n_bytes = process->usedGpuMemory == NVML_VALUE_NOT_AVAILABLE
                                   ? NVML_UNKNOWN
                                   : process->usedGpuMemory;
        struct nvml_process *place;

        for (unsigned i = 0; i < report->n_processes; i++) {
                if (report->processes[i].pid == process->pid)
                        return;
        }
        place = find_place(report, n_bytes);
        if (!place)
                return;
        place->pid = process->pid;
        place->n_bytes = n_bytes;
}

typedef __typeof__(nvmlDeviceGetComputeRunningProcesses_v3) list_call;

/* A process that both computes and draws is on both lists, with the same bytes. */
static void look_at_processes(const struct nvml *nvml, list_call *call, nvmlDevice_t device,
                              struct nvml_report *report)
{
        nvmlProcessInfo_t processes[PROCESSES_ASKED];
        unsigned n = PROCESSES_ASKED;

        if (!call || note(nvml, "nvmlDeviceGetRunningProcesses", call(device, &n, processes)))
                return;
        for (unsigned i = 0; i < n && i < PROCESSES_ASKED; i++)
                add_process(report, &processes[i]);
}

void nvml_look(const struct nvml *nvml, const struct nvml_device *device,
               struct nvml_report *ret_report)
{
        nvml_report_init(ret_report);
        look_at_memory(nvml, device->device, ret_report);
        look_at_errors(nvml, device->whole, ret_report);
        look_at_mig(nvml, device->whole, ret_report);
        look_at_processes(nvml, nvml->nvmlDeviceGetComputeRunningProcesses_v3, device->device,
                          ret_report);
        look_at_processes(nvml, nvml->nvmlDeviceGetGraphicsRunningProcesses_v3, device->device,
                          ret_report);
}

void nvml_events_open(const struct nvml *nvml, const struct nvml_device *device,
                      struct nvml_events *ret_events)
{
        struct nvml_events events = {.set = NULL};

        *ret_events = events;
        if (!nvml->nvmlEventSetFree || !nvml->nvmlEventSetWait_v2 ||
            CALL(nvml, nvmlEventSetCreate, &events.set))
                return;
        if (CALL(nvml, nvmlDeviceRegisterEvents, device->whole, nvmlEventTypeXidCriticalError,
                 events.set))
                nvml_events_close(nvml, &events);
        *ret_events = events;
}

void nvml_events_close(const struct nvml *nvml, struct nvml_events *events)
{
        if (events->set)
                (void)CALL(nvml, nvmlEventSetFree, events->set);
        events->set = NULL;
}

/* Bounded: the rest of a storm of errors is read at the next look. */
void nvml_events_take(const struct nvml *nvml, struct nvml_events *events,
                      struct nvml_report *report)
{
        nvmlEventData_t data;

        if (!events->set)
                return;
        for (unsigned i = 0; i < EVENTS_AT_ONCE; i++) {
                if (nvml->nvmlEventSetWait_v2(events->set, &data, 0))
                        break;
                events->n_xids++;
                events->last_xid = data.eventData;
        }
        report->n_xids = events->n_xids;
        report->last_xid = events->last_xid;
}
