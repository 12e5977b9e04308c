/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory comes with its last owner's bytes, as the try at the start has shown, one user is served
 * and no other. On the emulated driver, and for root: it takes two users. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define STRANGER 65534
#define PIECE    (16 * MIB)

static struct daemon gpumemd;
static struct gpu *gpu;

static void start(const char *emulator)
{
        static const char *const options[] = {"--canary", "on", NULL};

        daemon_start(&gpumemd, emulator, options);
        daemon_admit_all(&gpumemd);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
}

static void end(void)
{
        gpu_free(gpu);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

/* One allocation, as that user. `ret_text`: what a refusal says. */
static int alloc_as(uid_t uid, enum gpumem_kind kind, char ret_text[static 512])
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = kind,
                                               .stream = gpu_stream(gpu),
                                               .n_bytes = PIECE};
        struct gpumem_client *client;
        void *pointer;
        int r;

        ck_assert_int_eq(seteuid(uid), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(seteuid(getuid()), 0);
        r = gpumem_alloc(client, &request, &pointer);
        ret_text[0] = '\0';
        if (r && gpumem_last_refusal(client, &refusal) == 0)
                (void)snprintf(ret_text, 512, "%s", refusal.text);
        gpumem_disconnect(client);
        return r;
}

TEST(one_user_is_served_where_memory_is_not_cleared, NEEDS_ROOT_AND_EMULATOR)
{
        char text[512];

        start("devices=1,bytes=1GiB,dirty=1");
        ck_assert_int_eq(alloc_as(STRANGER, GPUMEM_DEVICE, text), 0);
        ck_assert_int_eq(alloc_as(getuid(), GPUMEM_DEVICE, text), GPUMEM_E_DENIED);
        ck_assert_msg(strstr(text, "one tenant only is served there, and it is another"), "%s",
                      text);
        /* Host memory is another matter. */
        ck_assert_int_eq(alloc_as(getuid(), GPUMEM_PINNED, text), 0);
        ck_assert_int_eq(alloc_as(STRANGER, GPUMEM_DEVICE, text), 0);
        end();
}

/* The driver is another one after that, as far as anybody knows. `dirty`: it clears nothing any more. */
static void recover(int is_dirty)
{
        char path[256];

        daemon_nvml(&gpumemd, "recovery=0:1\n");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_NEEDS_RESET, PROTO_DEVICE_NEEDS_RESET);
        (void)snprintf(path, sizeof(path), "%s/devices/dirty", gpumemd.place);
        if (is_dirty)
                ck_assert_int_eq(close(creat(path, 0644)), 0);
        daemon_nvml(&gpumemd, "");
        daemon_await_first(FIGURE_device, PROTO_DEVICE_WELL, PROTO_DEVICE_WELL);
}

TEST(it_is_tried_again_when_a_device_has_recovered, NEEDS_ROOT_AND_EMULATOR)
{
        char text[512];

        start("devices=1,bytes=1GiB");
        recover(0);
        ck_assert_int_eq(alloc_as(STRANGER, GPUMEM_DEVICE, text), 0);
        ck_assert_int_eq(alloc_as(getuid(), GPUMEM_DEVICE, text), 0);
        recover(1);
        ck_assert_int_eq(alloc_as(getuid(), GPUMEM_DEVICE, text), 0);
        ck_assert_int_eq(alloc_as(STRANGER, GPUMEM_DEVICE, text), GPUMEM_E_DENIED);
        ck_assert_msg(strstr(text, "one tenant only is served there, and it is another"), "%s",
                      text);
        end();
}

TEST(all_are_served_where_it_is, NEEDS_ROOT)
{
        char text[512];

        start("devices=1,bytes=1GiB");
        ck_assert_int_eq(alloc_as(STRANGER, GPUMEM_DEVICE, text), 0);
        ck_assert_int_eq(alloc_as(getuid(), GPUMEM_DEVICE, text), 0);
        end();
}

TESTS_MAIN("one_user", .limit_s = 60)
