/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/program.h"

unsigned n_daemon_fds, n_own_fds;
struct gpu *gpus[2];
unsigned n_gpus;
struct gpumem_client *client;

void open_gpus(unsigned n)
{
        n_gpus = n;
        for (unsigned device = n; device-- > 0;)
                ck_assert_int_eq(gpu_new((int)device, &gpus[device]), 0);
}

void close_gpus(void)
{
        for (unsigned device = 0; device < n_gpus; device++)
                gpus[device] = gpu_free(gpus[device]);
}

struct gpumem_request on_device(unsigned device, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = (int32_t)device,
                                       .flags = GPUMEM_AT_PLACE,
                                       .stream = gpu_stream(gpus[device]),
                                       .n_bytes = n_bytes};
}

struct gpumem_request pinned(uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        return request_in(gpu_stream(gpus[0]), GPUMEM_PINNED, n_bytes);
}

unsigned char *must_alloc(const struct gpumem_request *request)
{
        void *pointer;
        int r = gpumem_alloc(client, request, &pointer);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

void must_free(const struct gpumem_request *request, void *pointer)
{
        int r = gpumem_free(client, pointer, request->stream);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
}

int try_on(unsigned device, uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = on_device(device, n_bytes);

        return gpumem_alloc(client, &request, ret_pointer);
}

unsigned char *alloc_on(unsigned device, uint64_t n_bytes, uint32_t flags)
{
        struct gpumem_request request = on_device(device, n_bytes);

        request.flags |= flags;
        return must_alloc(&request);
}

unsigned char *alloc_pinned(uint64_t n_bytes)
{
        struct gpumem_request request = pinned(n_bytes);

        return must_alloc(&request);
}

void free_on(unsigned device, void *pointer)
{
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpus[device])), 0);
}

void fill(unsigned device, void *pointer, unsigned char byte, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_fill(gpus[device], pointer, byte, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
}

void check_filled(unsigned device, const void *pointer, unsigned char byte, uint64_t n_bytes)
{
        unsigned char *staged;
        uint64_t n_wrong = 0;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_restart(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], n_bytes, (void **)&staged), 0);
        memset(staged, (unsigned char)~byte, n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong += staged[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
}

struct gpumem_stats stats_of(enum gpumem_kind kind, int32_t place)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, kind, place, &stats), 0);
        return stats;
}

void check_device_bytes(unsigned device, unsigned char *pointer, uint64_t n_bytes)
{
        unsigned char *staged;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], n_bytes, (void **)&staged), 0);
        memset(staged, (int)((uintptr_t)pointer >> 9), n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[device], pointer, staged, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        memset(staged, 0, n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(staged[i], (unsigned char)((uintptr_t)pointer >> 9));
}

/* Allocates and frees some memory of each kind: drivers open files of their own when they first work. */
static void do_first_work(void)
{
        struct gpumem_request request = pinned(10000);

        must_free(&request, must_alloc(&request));
        for (unsigned device = 0; device < n_gpus; device++) {
                unsigned char *pointer;

                request = on_device(device, 10000);
                pointer = must_alloc(&request);
                ck_assert_uint_eq((uintptr_t)pointer % 512, 0);
                check_device_bytes(device, pointer, request.n_bytes);
                must_free(&request, pointer);
        }
}

static void give_all_back(void)
{
        gpumem_disconnect(client);
        daemon_expect_empty();
}

void program_start_with(const char *emulator, const char *const *options)
{
        daemon_start(&gpumemd, emulator, options);
        open_gpus(machine_n_devices());
        client = connect_client();
        do_first_work();
        give_all_back();
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        n_own_fds = own_fds();
        client = connect_client();
}

void program_start_on(const char *emulator)
{
        program_start_with(emulator,
                           OPTIONS("--pinned-bytes", "64MiB", "--device-bytes", "256MiB"));
}

void program_start(void)
{
        program_start_on("devices=2,bytes=256MiB");
}

void program_stop(void)
{
        give_all_back();
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        close_gpus();
        daemon_stop(&gpumemd);
}
