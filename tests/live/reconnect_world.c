/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/reconnect_world.h"

#include <string.h>

#include "tests/suite.h"

const char *const reconnect_options[] = {"--pinned-bytes", "64MiB", "--device-bytes", "256MiB",
                                         NULL};
const char *const reconnect_by_driver[] = {
        "--pinned-bytes", "64MiB", "--device-bytes", "256MiB", "--pinned-backing", "vmm", NULL};
struct daemon gpumemd;
struct gpu *gpus[2];
unsigned n_gpus;
struct gpumem_client *client;
static unsigned n_own_fds;

/* Whatever a test did: the client has as many fds as before, the daemon that is there now is charged
 * nothing and can give everything back. */
void reconnect_stop(void)
{
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpumem_disconnect(client);
        daemon_expect_empty();
        for (unsigned device = 0; device < n_gpus; device++)
                gpu_free(gpus[device]);
        daemon_stop(&gpumemd);
}

struct gpumem_request on_device(unsigned device, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = (int32_t)device,
                                       .stream = gpu_stream(gpus[device]),
                                       .n_bytes = n_bytes};
}

struct gpumem_request pinned(uint64_t n_bytes)
{
        struct gpumem_request request = on_device(0, n_bytes);

        request.kind = GPUMEM_PINNED;
        request.place = GPUMEM_NEAREST;
        return request;
}

int try_alloc(struct gpumem_request request, void **ret_pointer)
{
        return gpumem_alloc(client, &request, ret_pointer);
}

unsigned char *must_alloc(struct gpumem_request request)
{
        void *pointer;
        int r = try_alloc(request, &pointer);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

void must_free(unsigned device, void *pointer)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
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

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_restart(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], n_bytes, (void **)&staged), 0);
        memset(staged, (unsigned char)~byte, n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(staged[i], byte);
}

bool is_held(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.is_held;
}

void restart_daemon(const char *visible)
{
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, visible, reconnect_options);
}

/* Memory of each kind from a daemon of its own: a driver opens files at its first work. */
static void do_first_work(void)
{
        unsigned char *pointer = must_alloc(pinned(4096));

        memset(pointer, 1, 4096);
        must_free(0, pointer);
        for (unsigned device = 0; device < n_gpus; device++) {
                pointer = must_alloc(on_device(device, 4096));
                fill(device, pointer, 1, 4096);
                check_filled(device, pointer, 1, 4096);
                must_free(device, pointer);
        }
}

void reconnect_start(void)
{
        n_gpus = machine_n_devices();
        daemon_start(&gpumemd, "devices=2,bytes=256MiB,reclaim_ms=0", reconnect_by_driver);
        for (unsigned device = n_gpus; device-- > 0;)
                ck_assert_int_eq(gpu_new((int)device, &gpus[device]), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        do_first_work();
        gpumem_disconnect(client);
        restart_daemon(NULL);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        n_own_fds = own_fds();
}
