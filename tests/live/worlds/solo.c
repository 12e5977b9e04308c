/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/solo.h"

struct gpu *gpu;
struct gpumem_client *client;

void solo_open(uid_t uid)
{
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(seteuid(uid), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(seteuid(getuid()), 0);
}

void solo_close(void)
{
        gpumem_disconnect(client);
        client = NULL;
        gpu_free(gpu);
}

void solo_start(const char *emulator, const char *const *options)
{
        daemon_start(&gpumemd, emulator, options);
        solo_open(getuid());
}

void solo_stop(void)
{
        solo_close();
        daemon_stop_empty(&gpumemd);
}

struct gpumem_request request_of(enum gpumem_kind kind, uint64_t n_bytes)
{
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = kind,
                                       .place = GPUMEM_NEAREST,
                                       .stream = gpu_stream(gpu),
                                       .n_bytes = n_bytes};
}

int try_alloc(enum gpumem_kind kind, uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = request_of(kind, n_bytes);

        return gpumem_alloc(client, &request, ret_pointer);
}

void *must_alloc(enum gpumem_kind kind, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(try_alloc(kind, n_bytes, &pointer), 0);
        return pointer;
}

void must_free(void *pointer)
{
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
}

struct gpumem_stats device_stats(void)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        return stats;
}

void must_say(const char *part)
{
        must_contain(refusal_of(client).text, part);
}
