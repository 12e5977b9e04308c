/* SPDX-License-Identifier: Apache-2.0 */
/* If the canary finds a former owner's bytes, the daemon serves one user only. Needs the emulated driver,
 * and root for a second user. */
#include <fcntl.h>

#include "tests/live/support/links.h"
#include "tests/live/support/world.h"

#define STRANGER 65534

static struct gpu *gpu;

static void start_on(const char *emulator)
{
        daemon_start(&gpumemd, emulator, OPTIONS("--canary", "on"));
        daemon_admit_all(&gpumemd);
        gpu = use_gpu();
}

static void stop(void)
{
        gpu_free(gpu);
        gpumemd_stop_uncharged();
}

/* One allocation, as that user. */
static void expect_alloc(uid_t uid, enum gpumem_kind kind, int result)
{
        const struct gpumem_request request = request_in(gpu_stream(gpu), kind, 16 * MIB);
        struct gpumem_client *client;
        void *pointer;

        ck_assert_int_eq(seteuid(uid), 0);
        client = connect_client();
        ck_assert_int_eq(seteuid(getuid()), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), result);
        if (result)
                last_refusal_says(client, result,
                                  "this device serves only one tenant, another one");
        gpumem_disconnect(client);
}

TEST(one_user_is_served_where_memory_is_not_cleared, NEEDS_ROOT_AND_EMULATOR)
{
        start_on("devices=1,bytes=1GiB,dirty=1");
        expect_alloc(STRANGER, GPUMEM_DEVICE, 0);
        expect_alloc(getuid(), GPUMEM_DEVICE, GPUMEM_E_DENIED);
        /* Host memory is not concerned. */
        expect_alloc(getuid(), GPUMEM_PINNED, 0);
        expect_alloc(STRANGER, GPUMEM_DEVICE, 0);
}

TEST(a_request_that_is_refused_keeps_no_other_away, NEEDS_ROOT_AND_EMULATOR)
{
        struct message_leased none;
        struct link *link;

        start_on("devices=1,bytes=1GiB,dirty=1");
        ck_assert_int_eq(seteuid(STRANGER), 0);
        link = open_link("refused", NULL);
        ck_assert_int_eq(seteuid(getuid()), 0);
        ck_assert_int_eq(lease_over(link, &(struct message_lease){.n_bytes = 0}, &none),
                         GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(lease_over(link, &(struct message_lease){.n_bytes = 4 * GIB}, &none),
                         GPUMEM_E_TOO_LARGE);
        expect_alloc(getuid(), GPUMEM_DEVICE, 0);
        ck_assert_int_eq(lease_over(link, &(struct message_lease){.n_bytes = 2 * MIB}, &none),
                         GPUMEM_E_DENIED);
        link_free(link);
}

/* After that the driver may be another one. `dirty`: it does not clear memory any more. */
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
        start_on("devices=1,bytes=1GiB");
        recover(0);
        expect_alloc(STRANGER, GPUMEM_DEVICE, 0);
        expect_alloc(getuid(), GPUMEM_DEVICE, 0);
        recover(1);
        expect_alloc(getuid(), GPUMEM_DEVICE, 0);
        expect_alloc(STRANGER, GPUMEM_DEVICE, GPUMEM_E_DENIED);
}

TEST(all_are_served_where_it_is, NEEDS_ROOT)
{
        start_on("devices=1,bytes=1GiB");
        expect_alloc(STRANGER, GPUMEM_DEVICE, 0);
        expect_alloc(getuid(), GPUMEM_DEVICE, 0);
}

TESTS_MAIN("one_user", .limit_s = 60, .stop = stop)
