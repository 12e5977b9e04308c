/* SPDX-License-Identifier: Apache-2.0 */
/* Connects with options of its own, and prints why a call failed. It needs no CUDA. */
#include <gpumem.h>
#include <stdio.h>
#include <string.h>

static int report_connect(int result)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        (void)fprintf(stderr, "cannot connect: %s\n", gpumem_strerror(result));
        if (gpumem_connect_refusal(&refusal) == 0)
                (void)fprintf(stderr, "%s\n", refusal.text);
        return 1;
}

/* No machine has that much: the library refuses the request, and says why. */
static int ask_for_too_much(struct gpumem_client *client)
{
        const struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = GPUMEM_PINNED,
                .n_bytes = UINT64_C(1) << 50,
        };
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *memory;
        int r = gpumem_alloc(client, &request, &memory);

        if (r == 0)
                return gpumem_free(client, memory, NULL);
        if (gpumem_last_refusal(client, &refusal) || refusal.code != r)
                return r;
        printf("refused as expected: %s\n", refusal.text);
        return 0;
}

int main(void)
{
        const struct gpumem_options options = {
                .struct_size = sizeof(options),
                .program = "connect-example",
        };
        struct gpumem_client *client;
        int r = gpumem_connect(&options, &client);

        if (r)
                return report_connect(r);
        printf("libgpumem-client %s is connected\n", gpumem_version());
        r = ask_for_too_much(client);
        if (r)
                (void)fprintf(stderr, "%s\n", gpumem_strerror(r));
        gpumem_disconnect(client);
        return r != 0;
}
