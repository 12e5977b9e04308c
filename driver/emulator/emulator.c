#include "driver/emulator/emulator.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "driver/emulator/afterlife.h"
#include "driver/emulator/capture.h"
#include "driver/emulator/fault.h"
#include "driver/emulator/visible.h"

#define THREAD_STACK_BYTES ((size_t)512 << 10)
#define LOCK_POLL_US       100

static struct {
        pthread_mutex_t lock;
        pthread_mutex_t init_lock;
        CUresult init_result;
        struct emulator emulator;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .init_lock = PTHREAD_MUTEX_INITIALIZER};

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

CUresult emulator_enter_delayed(const char *call)
{
        CUresult r = emulator_enter(call);

        if (r == CUDA_SUCCESS)
                emulator_sleep_us(process.emulator.config.call_delay_us);
        return r;
}

CUresult emulator_enter_unsafe(const char *call)
{
        CUresult r = emulator_enter(call);

        return r == CUDA_SUCCESS ? capture_check_unsafe() : r;
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
                emulator_sleep_us(LOCK_POLL_US);
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

void emulator_sleep_us(uint64_t n_us)
{
        struct timespec left = {.tv_sec = (time_t)(n_us / 1000000),
                                .tv_nsec = (long)(n_us % 1000000) * 1000};

        while (n_us && nanosleep(&left, &left) < 0 && errno == EINTR)
                ;
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
                r = fault_init(&emulator->config.faults, emulator->directory.fd, reason);
        if (r) {
                (void)fprintf(stderr, "libcuda-emu: GPUMEM_EMULATOR: %s\n", reason);
                return emulator_result(r);
        }
        emulator->n_devices = visible_devices(secure_getenv("CUDA_VISIBLE_DEVICES"),
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
                return process.init_result;
        if (life_new(&life))
                return CUDA_ERROR_OPERATING_SYSTEM;
        process.init_result = emulator_init(&process.emulator);
        if (process.init_result == CUDA_SUCCESS)
                process.init_result = afterlife_init();
        life->initialised = process.init_result == CUDA_SUCCESS;
        __atomic_store_n(&emulator_life, life, __ATOMIC_RELEASE);
        return process.init_result;
}

EMULATOR_API CUresult CUDAAPI cuInit(unsigned int flags)
{
        CUresult r;

        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (emulator_is_live())
                return CUDA_SUCCESS;
        /* The lock may have been held by a thread that a forked child does not have. */
        if (__atomic_load_n(&emulator_life, __ATOMIC_ACQUIRE) &&
            process.init_result == CUDA_SUCCESS)
                return CUDA_ERROR_NOT_INITIALIZED;
        (void)pthread_mutex_lock(&process.init_lock);
        r = init_locked();
        (void)pthread_mutex_unlock(&process.init_lock);
        return r;
}
