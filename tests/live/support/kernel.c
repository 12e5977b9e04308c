/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/kernel.h"

#include <dlfcn.h>

#include "tests/suite.h"

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

#define SPIN_NS   UINT64_C(500000000)
#define N_BLOCKS  8
#define N_THREADS 256
#define N_FILLS   128

/* spin(words, n_words, word, ns): each thread writes every n-th word until the time is over. */
static const char text[] =
        ".version 7.0\n"
        ".target sm_70\n"
        ".address_size 64\n"
        ".visible .entry spin(.param .u64 words, .param .u64 n_words, .param .u32 word,\n"
        "                     .param .u64 ns)\n"
        "{\n"
        ".reg .pred %p<3>;\n"
        ".reg .b32 %r<6>;\n"
        ".reg .b64 %rd<10>;\n"
        "ld.param.u64 %rd1, [words];\n"
        "cvta.to.global.u64 %rd1, %rd1;\n"
        "ld.param.u64 %rd2, [n_words];\n"
        "ld.param.u32 %r1, [word];\n"
        "ld.param.u64 %rd3, [ns];\n"
        "mov.u32 %r2, %ctaid.x;\n"
        "mov.u32 %r3, %ntid.x;\n"
        "mov.u32 %r4, %tid.x;\n"
        "mad.lo.u32 %r2, %r2, %r3, %r4;\n"
        "cvt.u64.u32 %rd4, %r2;\n"
        "mov.u32 %r5, %nctaid.x;\n"
        "mul.lo.u32 %r5, %r5, %r3;\n"
        "cvt.u64.u32 %rd5, %r5;\n"
        "mov.u64 %rd6, %globaltimer;\n"
        "add.u64 %rd6, %rd6, %rd3;\n"
        "AGAIN:\n"
        "mov.u64 %rd7, %rd4;\n"
        "NEXT:\n"
        "setp.ge.u64 %p1, %rd7, %rd2;\n"
        "@%p1 bra DONE;\n"
        "shl.b64 %rd8, %rd7, 2;\n"
        "add.u64 %rd8, %rd1, %rd8;\n"
        "st.volatile.global.u32 [%rd8], %r1;\n"
        "add.u64 %rd7, %rd7, %rd5;\n"
        "bra NEXT;\n"
        "DONE:\n"
        "mov.u64 %rd9, %globaltimer;\n"
        "setp.lt.u64 %p2, %rd9, %rd6;\n"
        "@%p2 bra AGAIN;\n"
        "ret;\n"
        "}\n";

/* The library does not use it, so it is not in its table. */
static void *symbol(const char *name)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        return library ? dlsym(library, name) : NULL;
}

bool kernel_is_real(void)
{
        return symbol(NAME_OF(cuLaunchKernel)) != NULL;
}

void kernel_init(struct kernel *kernel, const struct cuda *cuda)
{
        __typeof__(cuModuleLoadData) *load;
        __typeof__(cuModuleGetFunction) *find;
        CUmodule module;

        *kernel = (struct kernel){.cuda = cuda};
        kernel->launch = (kernel_launch *)symbol(NAME_OF(cuLaunchKernel));
        if (!kernel->launch)
                return;
        load = (__typeof__(load))symbol(NAME_OF(cuModuleLoadData));
        find = (__typeof__(find))symbol(NAME_OF(cuModuleGetFunction));
        ck_assert(load && find);
        ck_assert_int_eq(load(&module, text), CUDA_SUCCESS);
        ck_assert_int_eq(find(&kernel->function, module, "spin"), CUDA_SUCCESS);
}

void kernel_spin(const struct kernel *kernel, CUstream stream, void *to, uint64_t n_bytes,
                 unsigned char byte)
{
        uint64_t address = (uintptr_t)to, n_words = n_bytes / sizeof(uint32_t), ns = SPIN_NS;
        uint32_t word = byte * UINT32_C(0x01010101);
        void *parameters[] = {&address, &n_words, &word, &ns};

        if (kernel->launch) {
                ck_assert_int_eq(kernel->launch(kernel->function, N_BLOCKS, 1, 1, N_THREADS, 1, 1,
                                                0, stream, parameters, NULL),
                                 CUDA_SUCCESS);
                return;
        }
        for (unsigned i = 0; i < N_FILLS; i++)
                ck_assert_int_eq(
                        CUDA_CALL(kernel->cuda, cuMemsetD8Async, address, byte, n_bytes, stream),
                        0);
}
