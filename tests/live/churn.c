/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/churn.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/live/capture_world.h"
#include "tests/suite.h"

static pthread_t threads[CHURN_THREADS_MAX];
static unsigned n_running;
static _Atomic bool ending;

static void *churn(void *argument)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUstream stream;

        (void)argument;
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuThreadExchangeStreamCaptureMode, &mode), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING), 0);
        while (!atomic_load(&ending)) {
                void *pointer = world_must_alloc(stream, CHURN_BYTES);

                world_fill(pointer, 0xee, CHURN_BYTES, stream);
                world_must_free(pointer, stream);
                ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, stream), 0);
        }
        return NULL;
}

void churn_begin(unsigned n_threads)
{
        ck_assert_uint_le(n_threads, CHURN_THREADS_MAX);
        atomic_store(&ending, false);
        for (n_running = 0; n_running < n_threads; n_running++)
                ck_assert_int_eq(pthread_create(&threads[n_running], NULL, churn, NULL), 0);
}

void churn_end(void)
{
        atomic_store(&ending, true);
        while (n_running)
                ck_assert_int_eq(pthread_join(threads[--n_running], NULL), 0);
}
