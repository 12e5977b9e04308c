/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the entry points as a framework does: through pointers, on a thread without a context. */
#include <gpumem-adapters.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N_BYTES 1000000

/* What a framework stores of an allocator. */
struct allocator {
        void *(*alloc)(size_t n_bytes, int device, void *stream);
        void (*free)(void *pointer, size_t n_bytes, int device, void *stream);
        void *(*base)(void *pointer, size_t *ret_n_bytes);
};

/* gpumem_torch_alloc would throw a C++ exception for a refusal. This one returns NULL, as C code needs it. */
static const struct allocator allocator = {
        .alloc = gpumem_torch_pool_alloc,
        .free = gpumem_torch_free,
        .base = gpumem_torch_base,
};

static void fail(const char *what)
{
        (void)fprintf(stderr, "%s\n", what);
        exit(EXIT_FAILURE);
}

/* The default stream here is that of the device's primary context. */
static void *use_allocator(void *argument)
{
        size_t n_bytes = 0;
        char *memory = allocator.alloc(N_BYTES, 0, NULL);

        (void)argument;
        if (!memory)
                fail("the allocator has no memory");
        if (allocator.base(memory + 4096, &n_bytes) != memory || n_bytes != N_BYTES)
                fail("the allocator does not know its memory");
        allocator.free(memory, N_BYTES, 0, NULL);
        return NULL;
}

static void use_tensor(void)
{
        const struct gpumem_dlpack_type f32 = {.code = 2, .bits = 32, .lanes = 1};
        const int64_t shape[] = {1000, 1000};
        struct DLManagedTensorVersioned *tensor;
        void *memory;
        int r = gpumem_device_alloc(N_BYTES, 0, NULL, &memory);

        if (r)
                fail(gpumem_strerror(r));
        /* 4,000,000 bytes do not fit: the call fails, and the memory is still the caller's. */
        r = gpumem_to_dlpack(NULL, memory, 2, shape, &f32, &tensor);
        if (r != GPUMEM_E_BAD_REQUEST)
                fail("the tensor is larger than its memory");
        r = gpumem_free_sync(NULL, memory);
        if (r)
                fail(gpumem_strerror(r));
}

int main(void)
{
        pthread_t thread;

        gpumem_adapters_set_wait_ms(1000);
        if (pthread_create(&thread, NULL, use_allocator, NULL) || pthread_join(thread, NULL))
                fail("there is no thread");
        use_tensor();
        gpumem_torch_empty_cache();
        printf("%llu calls failed\n", (unsigned long long)gpumem_adapters_failures());
        return gpumem_adapters_failures() ? EXIT_FAILURE : EXIT_SUCCESS;
}
