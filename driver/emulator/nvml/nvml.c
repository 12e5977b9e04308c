/* SPDX-License-Identifier: Apache-2.0 */
/* libnvml-emu.so: emulates libnvidia-ml.so.1 for the emulated machine. The stores tell memory sizes and the processes
 * that hold memory; nvml_state.h tells MIG and errors. Any thread. */
#include "driver/abi/nvml.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/directory.h"
#include "driver/emulator/machine/visible.h"
#include "driver/emulator/nvml/nvml_state.h"

#define NVML_API __attribute__((visibility("default")))

#define OWNERS_MAX 256

struct nvmlDevice_st {
        unsigned index;
        bool is_instance; /* of a GPU in MIG mode, which has an index as well */
};

static struct {
        pthread_mutex_t mutex;
        enum { INIT_NOT_YET, INIT_DONE, INIT_FAILED } init; /* atomic */
        struct config config;
        struct directory directory;
        struct nvmlDevice_st devices[CONFIG_DEVICES_MAX];
        struct nvmlDevice_st instances[CONFIG_DEVICES_MAX];
} machine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int machine_init(void)
{
        char reason[CONFIG_REASON_MAX];
        int r;

        store_lock_apart();
        r = config_read(secure_getenv("GPUMEM_EMULATOR"), &machine.config, reason);
        if (!r)
                r = directory_init(&machine.directory, &machine.config, reason);
        if (r)
                (void)fprintf(stderr, "libnvml-emu: GPUMEM_EMULATOR: %s\n", reason);
        for (unsigned i = 0; i < CONFIG_DEVICES_MAX; i++) {
                machine.devices[i].index = i;
                machine.instances[i] = (struct nvmlDevice_st){.index = i, .is_instance = true};
        }
        return r;
}

static nvmlReturn_t state_check(void)
{
        return __atomic_load_n(&machine.init, __ATOMIC_ACQUIRE) == INIT_DONE
                       ? NVML_SUCCESS
                       : NVML_ERROR_UNINITIALIZED;
}

/* Every call for no device begins so. */
static nvmlReturn_t call_enter(void)
{
        struct nvml_state state;
        nvmlReturn_t result = state_check();

        if (result != NVML_SUCCESS)
                return result;
        nvml_state_read_apart(machine.directory.fd, &state);
        return (nvmlReturn_t)state.result;
}

NVML_API nvmlReturn_t nvmlInit_v2(void)
{
        nvmlReturn_t result;

        (void)pthread_mutex_lock(&machine.mutex);
        if (machine.init == INIT_NOT_YET)
                __atomic_store_n(&machine.init, machine_init() ? INIT_FAILED : INIT_DONE,
                                 __ATOMIC_RELEASE);
        result = machine.init == INIT_DONE ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
        (void)pthread_mutex_unlock(&machine.mutex);
        return result == NVML_SUCCESS ? call_enter() : result;
}

NVML_API const char *nvmlErrorString(nvmlReturn_t result)
{
        switch (result) {
        case NVML_SUCCESS:
                return "Success";
        case NVML_ERROR_UNINITIALIZED:
                return "Uninitialized";
        case NVML_ERROR_INVALID_ARGUMENT:
                return "Invalid Argument";
        case NVML_ERROR_NOT_SUPPORTED:
                return "Not Supported";
        case NVML_ERROR_NOT_FOUND:
                return "Not Found";
        case NVML_ERROR_INSUFFICIENT_SIZE:
                return "Insufficient Size";
        case NVML_ERROR_TIMEOUT:
                return "Timeout";
        case NVML_ERROR_GPU_IS_LOST:
                return "GPU is lost";
        case NVML_ERROR_RESET_REQUIRED:
                return "GPU requires reset";
        default:
                return "Unknown Error";
        }
}

/* Of one device. */
struct nvmlEventSet_st {
        nvmlDevice_t device; /* NULL: none has been registered */
        uint64_t seen;       /* the errors of its last state */
};

/* Every call for a device begins so. */
static nvmlReturn_t device_enter(nvmlDevice_t device, struct nvml_state *ret_state)
{
        nvmlReturn_t result = state_check();

        if (result != NVML_SUCCESS)
                return result;
        if (!device)
                return NVML_ERROR_INVALID_ARGUMENT;
        nvml_state_read(machine.directory.fd, device->index, ret_state);
        return (nvmlReturn_t)ret_state->result;
}

/* So begins what is told of whole GPUs only. */
static nvmlReturn_t whole_enter(nvmlDevice_t device, struct nvml_state *ret_state)
{
        nvmlReturn_t result = device_enter(device, ret_state);

        return result == NVML_SUCCESS && device->is_instance ? NVML_ERROR_NOT_SUPPORTED : result;
}

/* All of the machine, whatever CUDA_VISIBLE_DEVICES says. */
NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
        nvmlReturn_t result = call_enter();

        if (result != NVML_SUCCESS)
                return result;
        if (!deviceCount)
                return NVML_ERROR_INVALID_ARGUMENT;
        *deviceCount = machine.config.n_devices;
        return NVML_SUCCESS;
}

/* What CUDA has as its devices. The UUIDs of GPUs in MIG mode, which CUDA has not, are not known here. */
NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
        char text[UUID_TEXT_MAX];
        uint8_t bytes[UUID_BYTES];
        nvmlReturn_t result = call_enter();

        if (result != NVML_SUCCESS)
                return result;
        if (!uuid || !device)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (unsigned i = 0; i < machine.config.n_devices; i++) {
                visible_uuid(machine.directory.seed, i, bytes);
                uuid_print(machine.config.is_mig ? UUID_OF_MIG : UUID_OF_GPU, bytes, text);
                if (strcasecmp(text, uuid) == 0) {
                        *device = machine.config.is_mig ? &machine.instances[i]
                                                        : &machine.devices[i];
                        return NVML_SUCCESS;
                }
        }
        return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                                   nvmlDevice_t *device)
{
        struct nvml_state state;
        nvmlReturn_t result = device_enter(migDevice, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!device || !migDevice->is_instance)
                return NVML_ERROR_INVALID_ARGUMENT;
        *device = &machine.devices[migDevice->index];
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
        struct nvml_state state;
        uint64_t used;
        nvmlReturn_t result = device_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!memory || memory->version != nvmlMemory_v2)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (store_used(&machine.directory.devices[device->index], &used))
                return NVML_ERROR_UNKNOWN;
        memory->total = machine.config.device_bytes;
        memory->reserved = 0;
        memory->used = used;
        memory->free = memory->total - used;
        return NVML_SUCCESS;
}

static int is_alive(uint32_t pid)
{
        return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                              unsigned int *infoCount,
                                                              nvmlProcessInfo_t *infos)
{
        struct store_owner owners[OWNERS_MAX];
        struct nvml_state state;
        unsigned n, n_alive = 0, n_room;
        nvmlReturn_t result = device_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!infoCount || (*infoCount && !infos))
                return NVML_ERROR_INVALID_ARGUMENT;
        n_room = *infoCount;
        n = store_owners(&machine.directory.devices[device->index], owners, OWNERS_MAX);
        for (unsigned i = 0; i < n && i < OWNERS_MAX; i++) {
                if (!is_alive(owners[i].pid))
                        continue;
                if (n_alive < n_room)
                        infos[n_alive] = (nvmlProcessInfo_t){.pid = owners[i].pid,
                                                             .usedGpuMemory = owners[i].n_bytes,
                                                             .gpuInstanceId = UINT32_MAX,
                                                             .computeInstanceId = UINT32_MAX};
                n_alive++;
        }
        *infoCount = n_alive;
        return n_alive > n_room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                               unsigned int *infoCount,
                                                               nvmlProcessInfo_t *infos)
{
        struct nvml_state state;
        nvmlReturn_t result = device_enter(device, &state);

        (void)infos;
        if (result != NVML_SUCCESS)
                return result;
        if (!infoCount)
                return NVML_ERROR_INVALID_ARGUMENT;
        *infoCount = 0;
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                           unsigned int *pendingMode)
{
        struct nvml_state state;
        nvmlReturn_t result = whole_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!currentMode || !pendingMode)
                return NVML_ERROR_INVALID_ARGUMENT;
        *currentMode = *pendingMode = state.mig || machine.config.is_mig ? NVML_DEVICE_MIG_ENABLE
                                                                         : NVML_DEVICE_MIG_DISABLE;
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int errorType,
                                                  unsigned int counterType,
                                                  unsigned long long *eccCounts)
{
        struct nvml_state state;
        nvmlReturn_t result = whole_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!eccCounts || errorType > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counterType > 1)
                return NVML_ERROR_INVALID_ARGUMENT;
        *eccCounts = errorType == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? state.uncorrected : 0;
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows,
                                                unsigned int *uncRows, unsigned int *isPending,
                                                unsigned int *failureOccurred)
{
        struct nvml_state state;
        nvmlReturn_t result = whole_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!corrRows || !uncRows || !isPending || !failureOccurred)
                return NVML_ERROR_INVALID_ARGUMENT;
        *corrRows = *failureOccurred = 0;
        *uncRows = *isPending = state.remapped ? 1 : 0;
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
                                               nvmlFieldValue_t *values)
{
        struct nvml_state state;
        nvmlReturn_t result = whole_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!values || valuesCount <= 0)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (int i = 0; i < valuesCount; i++) {
                values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
                if (values[i].fieldId != NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)
                        continue;
                values[i].nvmlReturn = NVML_SUCCESS;
                values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
                values[i].value.uiVal = (unsigned)state.recovery;
        }
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
        nvmlReturn_t result = call_enter();

        if (result != NVML_SUCCESS)
                return result;
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        *set = calloc(1, sizeof(**set));
        return *set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                               nvmlEventSet_t set)
{
        struct nvml_state state;
        nvmlReturn_t result = whole_enter(device, &state);

        if (result != NVML_SUCCESS)
                return result;
        if (!set || set->device)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (eventTypes != nvmlEventTypeXidCriticalError)
                return NVML_ERROR_NOT_SUPPORTED;
        set->device = device;
        set->seen = state.xid;
        return NVML_SUCCESS;
}

/* This NVML has no events to wait for. */
NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                          unsigned int timeoutms)
{
        struct nvml_state state;
        nvmlReturn_t result = state_check();

        if (result != NVML_SUCCESS)
                return result;
        if (!set || !data || timeoutms)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!set->device)
                return NVML_ERROR_TIMEOUT;
        nvml_state_read(machine.directory.fd, set->device->index, &state);
        if (state.nth && state.result)
                return (nvmlReturn_t)state.result;
        if (state.xid == set->seen)
                return NVML_ERROR_TIMEOUT;
        set->seen = state.xid;
        if (!state.xid)
                return NVML_ERROR_TIMEOUT;
        *data = (nvmlEventData_t){.device = set->device,
                                  .eventType = nvmlEventTypeXidCriticalError,
                                  .eventData = state.xid,
                                  .gpuInstanceId = UINT32_MAX,
                                  .computeInstanceId = UINT32_MAX};
        return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        free(set);
        return NVML_SUCCESS;
}
