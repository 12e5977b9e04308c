/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes share device memory. The parent fills it and sends a token through a pipe; the child attaches it. */
#include <cuda.h>
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)      check((call), #call)
#define CHECK_CUDA(call) check_cuda((call), #call)
#define N_WORDS          (1U << 20)
#define N_BYTES          (N_WORDS * sizeof(uint32_t))
#define PATTERN          UINT32_C(0xFEEDBEEF)

static void check(int result, const char *call)
{
        if (result == 0)
                return;
        (void)fprintf(stderr, "%s: %s\n", call, gpumem_strerror(result));
        exit(EXIT_FAILURE);
}

static void check_cuda(CUresult result, const char *call)
{
        if (result == CUDA_SUCCESS)
                return;
        (void)fprintf(stderr, "%s: CUDA error %d\n", call, (int)result);
        exit(EXIT_FAILURE);
}

static CUdevice begin_cuda(void)
{
        CUcontext context;
        CUdevice device;

        CHECK_CUDA(cuInit(0));
        CHECK_CUDA(cuDeviceGet(&device, 0));
        CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
        CHECK_CUDA(cuCtxSetCurrent(context));
        return device;
}

static void write_memory(int pipe_fd)
{
        const struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = GPUMEM_DEVICE,
                .n_bytes = N_BYTES,
                .flags = GPUMEM_SHAREABLE,
        };
        /* The daemon keeps the memory for the child for 10 s after the free. */
        const struct gpumem_share_options options = {
                .struct_size = sizeof(options),
                .keep_ms = 10000,
        };
        char text[GPUMEM_TOKEN_TEXT_BYTES];
        CUdevice device = begin_cuda();
        struct gpumem_token token;
        void *memory;

        CHECK(gpumem_alloc(NULL, &request, &memory));
        CHECK_CUDA(cuMemsetD32Async((CUdeviceptr)memory, PATTERN, N_WORDS, NULL));
        CHECK(gpumem_share(NULL, memory, &options, &token));
        /* This waits for the work in the stream, so the child finds all of it. */
        CHECK(gpumem_free(NULL, memory, NULL));
        (void)gpumem_token_format(&token, text);
        if (write(pipe_fd, text, sizeof(text)) != (ssize_t)sizeof(text))
                exit(EXIT_FAILURE);
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
}

static void read_memory(int pipe_fd)
{
        char text[GPUMEM_TOKEN_TEXT_BYTES];
        struct gpumem_token token;
        uint32_t last_word = 0;
        uint64_t n_bytes;
        CUdevice device;
        void *memory;

        if (read(pipe_fd, text, sizeof(text)) != (ssize_t)sizeof(text))
                exit(EXIT_FAILURE);
        device = begin_cuda();
        CHECK(gpumem_token_parse(text, &token));
        CHECK(gpumem_attach(NULL, &token, &memory, &n_bytes));
        CHECK_CUDA(cuMemcpyDtoH(&last_word, (CUdeviceptr)memory + n_bytes - sizeof(last_word),
                                sizeof(last_word)));
        CHECK(gpumem_detach(NULL, memory, NULL));
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
        printf("the child reads 0x%X at the end of %llu bytes\n", (unsigned)last_word,
               (unsigned long long)n_bytes);
        if (last_word != PATTERN || n_bytes != N_BYTES)
                exit(EXIT_FAILURE);
}

/* A forked child cannot use the parent's client or its CUDA: the process forks before it begins either. */
int main(void)
{
        int ends[2], status;
        pid_t child;

        if (pipe(ends) < 0 || (child = fork()) < 0) {
                perror("share");
                return EXIT_FAILURE;
        }
        if (child == 0) {
                (void)close(ends[1]);
                read_memory(ends[0]);
                return EXIT_SUCCESS;
        }
        (void)close(ends[0]);
        write_memory(ends[1]);
        if (waitpid(child, &status, 0) != child || status != 0)
                return EXIT_FAILURE;
        return EXIT_SUCCESS;
}
