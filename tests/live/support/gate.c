/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/gate.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "tests/suite.h"

#define WORD_BYTES 4096

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

void gate_init(struct gate *gate, const struct cuda *cuda)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        ck_assert_ptr_nonnull(library);
        *gate = (struct gate){.cuda = cuda};
        /* The library does not use it, so it is not in its table. */
        gate->wait = (gate_wait *)dlsym(library, NAME_OF(cuStreamWaitValue64));
        ck_assert_ptr_nonnull(gate->wait);
        gate->word = mmap(NULL, WORD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0);
        ck_assert(gate->word != MAP_FAILED);
        ck_assert_int_eq(CUDA_CALL(cuda, cuMemHostRegister, (void *)gate->word, WORD_BYTES,
                                   CU_MEMHOSTREGISTER_DEVICEMAP),
                         0);
}

void gate_deinit(struct gate *gate)
{
        gate_open(gate);
        ck_assert_int_eq(CUDA_CALL(gate->cuda, cuMemHostUnregister, (void *)gate->word), 0);
        (void)munmap((void *)gate->word, WORD_BYTES);
}

void gate_hold(struct gate *gate, void *stream)
{
        ck_assert_int_eq(gate->wait(stream, (CUdeviceptr)(uintptr_t)gate->word, gate->n_held + 1,
                                    CU_STREAM_WAIT_VALUE_GEQ),
                         CUDA_SUCCESS);
}

void gate_open(struct gate *gate)
{
        atomic_store(gate->word, ++gate->n_held);
}
