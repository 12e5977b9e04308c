/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit: the emulator as the environment describes it, once a process. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/fault.h"
#include "driver/emulator/machine/visible.h"
#include "driver/emulator/stream/orphaned_work.h"

static struct {
        pthread_mutex_t lock;
        CUresult result;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int life_new(struct life **ret_life)
{
        void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (page == MAP_FAILED || madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) < 0)
                return err_errno();
        *ret_life = page;
        return 0;
}

static CUresult emulator_init(struct emulator *emulator)
{
        char reason[CONFIG_REASON_MAX];
        int r;

        r = config_read(secure_getenv("GPUMEM_EMULATOR"), &emulator->config, reason);
        if (!r)
                r = directory_init(&emulator->directory, &emulator->config, reason);
        if (!r)
                r = fault_init(&emulator->config, emulator->directory.fd, reason);
        if (r) {
                (void)fprintf(stderr, "libcuda-emu: GPUMEM_EMULATOR: %s\n", reason);
                return emulator_result(r);
        }
        emulator->n_devices = visible_devices(secure_getenv("CUDA_VISIBLE_DEVICES"),
                                              emulator->config.is_mig ? UUID_OF_MIG : UUID_OF_GPU,
                                              emulator->directory.seed, emulator->config.n_devices,
                                              emulator->physical);
        if (!emulator->n_devices)
                return CUDA_ERROR_NO_DEVICE;
        return fault_is_armed() ? fault_apply("cuInit") : CUDA_SUCCESS;
}

/* A failure is final for the process, so that it is explained once. */
static CUresult init_locked(void)
{
        struct life *life;

        if (emulator_life)
                return process.result;
        if (life_new(&life))
                return CUDA_ERROR_OPERATING_SYSTEM;
        process.result = emulator_init(emulator_get());
        if (process.result == CUDA_SUCCESS)
                process.result = orphaned_work_init();
        life->initialised = process.result == CUDA_SUCCESS;
        __atomic_store_n(&emulator_life, life, __ATOMIC_RELEASE);
        return process.result;
}

EMULATOR_API CUresult CUDAAPI cuInit(unsigned int flags)
{
        CUresult r;

        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (emulator_is_live())
                return CUDA_SUCCESS;
        /* The lock may have been held by a thread that a forked child does not have. */
        if (__atomic_load_n(&emulator_life, __ATOMIC_ACQUIRE) && process.result == CUDA_SUCCESS)
                return CUDA_ERROR_NOT_INITIALIZED;
        (void)pthread_mutex_lock(&process.lock);
        r = init_locked();
        (void)pthread_mutex_unlock(&process.lock);
        return r;
}
