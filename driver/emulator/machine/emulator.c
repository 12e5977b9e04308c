/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/emulator.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "driver/emulator/machine/fault.h"

#define THREAD_STACK_BYTES ((size_t)512 << 10)
#define LOCK_POLL_US       100

static struct {
        pthread_mutex_t lock;
        struct emulator emulator;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct life *emulator_life;
_Thread_local EMULATOR_HOT_TLS enum emulator_callback emulator_callback;

static CUresult state_check(void)
{
        if (!emulator_is_live())
                return CUDA_ERROR_NOT_INITIALIZED;
        return emulator_callback == EMULATOR_IN_CALLBACK ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult emulator_enter_hindered(const char *call)
{
        CUresult r = state_check();

        return r == CUDA_SUCCESS && fault_is_armed() ? fault_apply(call) : r;
}

CUresult emulator_enter(const char *call)
{
        CUresult r = state_check();

        if (r != CUDA_SUCCESS)
                return r;
        fault_look();
        return fault_is_armed() ? fault_apply(call) : CUDA_SUCCESS;
}

CUresult emulator_enter_for(const char *call, CUdevice device)
{
        CUresult r = emulator_enter(call);

        if (r != CUDA_SUCCESS)
                return r;
        return device < 0 || (unsigned)device >= emulator_get()->n_devices
                       ? CUDA_ERROR_INVALID_DEVICE
                       : CUDA_SUCCESS;
}

CUresult emulator_enter_delayed(const char *call)
{
        CUresult r = emulator_enter(call);

        if (r == CUDA_SUCCESS)
                clock_sleep_us(process.emulator.config.call_delay_us);
        return r;
}

void emulator_mark_callback(enum emulator_callback callback)
{
        emulator_callback = callback;
}

struct emulator *emulator_get(void)
{
        return &process.emulator;
}

struct store *emulator_store(unsigned device)
{
        return &process.emulator.directory.devices[process.emulator.physical[device]];
}

bool emulator_reaches(unsigned device, unsigned other)
{
        const struct emulator *emulator = &process.emulator;
        uint64_t n_peers = emulator->config.n_peers;

        return emulator->physical[device] / n_peers == emulator->physical[other] / n_peers;
}

void emulator_lock(void)
{
        (void)pthread_mutex_lock(&process.lock);
}

bool emulator_lock_within(uint64_t n_us)
{
        for (uint64_t us = 0; pthread_mutex_trylock(&process.lock) != 0; us += LOCK_POLL_US) {
                if (us >= n_us)
                        return false;
                clock_sleep_us(LOCK_POLL_US);
        }
        return true;
}

void emulator_unlock(void)
{
        (void)pthread_mutex_unlock(&process.lock);
}

int emulator_start_thread(void *(*function)(void *argument), void *argument)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;
        int r;

        if (pthread_attr_init(&attributes))
                return -ENOMEM;
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
        /* The application's signals are for the application's threads. */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&thread, &attributes, function, argument);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
        return -r;
}

void emulator_end(const char *what)
{
        (void)fprintf(stderr, "emulated driver: %s\n", what);
        abort();
}

CUresult emulator_result(int r)
{
        switch (r) {
        case 0:
                return CUDA_SUCCESS;
        case -ENOMEM:
        case -ENOSPC:
                return CUDA_ERROR_OUT_OF_MEMORY;
        case -EINVAL:
                return CUDA_ERROR_INVALID_VALUE;
        default:
                return CUDA_ERROR_OPERATING_SYSTEM;
        }
}
