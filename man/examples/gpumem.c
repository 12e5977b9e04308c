/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates pinned memory, fills it and frees it. It needs no GPU. */
#include <gpumem.h>
#include <stdio.h>
#include <string.h>

#define N_BYTES 100000

int main(void)
{
        void *memory;
        int r = gpumem_malloc_pinned(N_BYTES, &memory);

        if (r) {
                (void)fprintf(stderr, "no memory: %s\n", gpumem_strerror(r));
                return 1;
        }
        memset(memory, 1, N_BYTES);
        printf("%d bytes of pinned memory at %p\n", N_BYTES, memory);
        r = gpumem_free(NULL, memory, NULL);
        if (r)
                (void)fprintf(stderr, "it is not freed: %s\n", gpumem_strerror(r));
        return r != 0;
}
